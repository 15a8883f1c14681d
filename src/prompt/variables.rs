//! The variables of a prompt.

use super::PromptError;
use super::check::{Place, Places};

/// Values for the variables of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptVariables {
    model: Option<String>,
    cwd: Option<String>,
}

impl PromptVariables {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `{{model}}`: what the model is called.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The value of `{{cwd}}`: the working folder.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The text with its variables filled in. What a value holds is not looked at again.
    pub(super) fn fill(&self, text: &str) -> Result<String, PromptError> {
        parts(text).map(|part| self.value(part)).collect()
    }

    /// Every variable of a text that there is not.
    pub(super) fn faults(text: &str) -> Vec<PromptError> {
        let any = Self::new().model("").cwd("");
        parts(text).filter_map(|part| any.value(part).err()).collect()
    }

    fn value<'a>(&'a self, part: Result<Part<'a>, PromptError>) -> Result<&'a str, PromptError> {
        let (name, place) = match part? {
            Part::Text(text) => return Ok(text),
            Part::Variable { name, place } => (name, place),
        };
        let value = match name {
            "model" => &self.model,
            "cwd" => &self.cwd,
            _ => return Err(PromptError::UnknownVariable { name: name.into(), place }),
        };
        value.as_deref().ok_or_else(|| PromptError::MissingValue { name: name.into(), place })
    }
}

enum Part<'a> {
    Text(&'a str),
    Variable { name: &'a str, place: Place },
}

fn parts(text: &str) -> impl Iterator<Item = Result<Part<'_>, PromptError>> {
    let mut rest = text;
    let mut places = Places::of(text);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(start) = rest.find("{{") else {
            return Some(Ok(Part::Text(std::mem::take(&mut rest))));
        };
        if start > 0 {
            let (before, variable) = rest.split_at(start);
            rest = variable;
            return Some(Ok(Part::Text(before)));
        }
        let place = places.at(text.len() - rest.len());
        let inner = rest.strip_prefix("{{").unwrap_or_default();
        let Some((name, after)) = inner.split_once("}}").filter(|(name, _)| !name.contains(['{', '}', '\n'])) else {
            rest = "";
            return Some(Err(PromptError::UnclosedVariable { place }));
        };
        rest = after;
        Some(Ok(Part::Variable { name: name.trim(), place }))
    })
}
