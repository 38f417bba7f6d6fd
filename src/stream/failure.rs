//! Why the JetStream API refuses a call.
//!
//! Wider than the errors that publishing meets, whose numbers and texts it takes from `nats`.

use std::sync::Arc;

use crate::nats::error_code::{ApiError, ErrorCode};

/// Why a call was refused.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ApiFailure {
    /// `code`: the HTTP-like status.
    pub status: u16,
    /// `err_code`: the number that names the error.
    pub number: u16,
    /// Description.
    pub description: Arc<str>,
}

impl ApiFailure {
    /// A failure in these words.
    pub fn new(status: u16, number: u16, description: &str) -> Self {
        Self {
            status,
            number,
            description: description.into(),
        }
    }

    /// An unlawful stream configuration (10052), in these words.
    pub fn invalid_config(description: &str) -> Self {
        Self::new(500, 10052, description)
    }
}

impl From<ApiError> for ApiFailure {
    fn from(error: ApiError) -> Self {
        Self::new(error.code.status(), error.code.number(), &error.to_string())
    }
}

impl From<ErrorCode> for ApiFailure {
    fn from(code: ErrorCode) -> Self {
        ApiError::from(code).into()
    }
}
