#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod message;
mod meter;
mod session;

pub use message::*;
pub use meter::*;
pub use session::*;
