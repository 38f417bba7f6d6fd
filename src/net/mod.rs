//! Links, streams of bytes and disks: pure machines that answer "when".
//!
//! Leans on `machine`.

pub mod disk;
pub mod limit;
pub mod link;
pub mod pace;
