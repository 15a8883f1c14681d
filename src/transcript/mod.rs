//! Conversations of other systems: what their APIs refuse in one.

mod rule;
mod target;
mod validate;

pub use rule::{Profile, Rule};
pub use target::Target;
pub use validate::{Violation, validate, validate_with};
