//! Links and disks: pure machines that answer "when".
//!
//! Leans on `machine`.

pub mod disk;
pub mod link;
