#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod breaker;
mod checkpoint;
mod engine;
mod kit;
mod message;
mod meter;
mod mirror;
mod policy;
#[cfg(feature = "presets")]
mod preset;
#[cfg(feature = "presets")]
pub mod prompt;
mod pruner;
mod session;
mod summarizer;
pub mod transcript;

pub use breaker::*;
pub use checkpoint::*;
pub use engine::*;
pub use kit::*;
pub use message::*;
pub use meter::*;
pub use mirror::*;
pub use policy::*;
#[cfg(feature = "presets")]
pub use preset::*;
pub use pruner::*;
pub use session::*;
pub use summarizer::*;
