//! A summariser behind an OpenAI-compatible server.

use std::time::Duration;

use arya_presets::{Summarizer, SummarizerError, SummaryReply, SummaryRequest, Usage};
use serde_json::{Value, json};

pub(crate) struct Client {
    address: String,
    model: String,
    key: Option<String>,
    agent: ureq::Agent,
}

/// A summary of a long conversation by a small model on a small machine takes minutes.
const TIMEOUT: Duration = Duration::from_secs(600);

impl Client {
    pub(crate) fn new(base_url: &str, model: &str) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
        Self {
            address: format!("{}/chat/completions", base_url.trim_end_matches('/')),
            model: model.to_owned(),
            key: std::env::var("OPENAI_API_KEY").ok().filter(|key| !key.is_empty()),
            agent: config.into(),
        }
    }
}

impl Summarizer for Client {
    fn summarize(&mut self, request: &SummaryRequest) -> Result<SummaryReply, SummarizerError> {
        let body = json!({
            "model": self.model,
            "messages": [{ "role": "user", "content": request.rendered() }],
            "max_tokens": request.max_output_tokens(),
        });
        let mut call = self.agent.post(&self.address);
        if let Some(key) = &self.key {
            call = call.header("Authorization", format!("Bearer {key}"));
        }
        let mut response = call.send_json(&body).map_err(|error| match error {
            ureq::Error::Timeout(_) => SummarizerError::Timeout,
            error => SummarizerError::Transport(error.to_string()),
        })?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        let text = response
            .body_mut()
            .read_to_string()
            .map_err(|error| SummarizerError::Transport(format!("the answer broke off: {error}")))?;
        if status != 200 {
            return Err(refusal(status, retry_after, &text));
        }
        let answer: Value = serde_json::from_str(&text)
            .map_err(|error| SummarizerError::other(format!("the server's answer is no JSON: {error}")))?;
        let content = answer.pointer("/choices/0/message/content").and_then(Value::as_str).unwrap_or_default();
        let mut reply = SummaryReply::text("openai-compatible", &self.model, content);
        reply.max_tokens = Some(request.max_output_tokens());
        reply.cut_off = answer.pointer("/choices/0/finish_reason").is_some_and(|reason| reason == "length");
        reply.usage = usage_of(&answer);
        Ok(reply)
    }
}

fn refusal(status: u16, retry_after: Option<u64>, text: &str) -> SummarizerError {
    let message = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|value| Some(value.pointer("/error/message")?.as_str()?.to_owned()))
        .unwrap_or_else(|| text.chars().take(200).collect());
    let lower = message.to_lowercase();
    match status {
        401 | 403 => SummarizerError::Auth(message),
        429 => SummarizerError::RateLimited { retry_after: retry_after.map(Duration::from_secs) },
        400 | 413 if lower.contains("context") || lower.contains("too long") => {
            SummarizerError::Overflow { limit: None }
        }
        _ => SummarizerError::other(format!("the server answered {status}: {message}")),
    }
}

/// Cached input is part of `prompt_tokens` there; the parts of a [`Usage`] are disjoint.
fn usage_of(answer: &Value) -> Option<Usage> {
    let count = |path: &str| answer.pointer(path).and_then(Value::as_u64);
    let input = count("/usage/prompt_tokens")?;
    let cached = count("/usage/prompt_tokens_details/cached_tokens");
    Some(Usage {
        input_tokens: input.saturating_sub(cached.unwrap_or(0)),
        output_tokens: count("/usage/completion_tokens").unwrap_or(0),
        cache_read_tokens: cached,
        ..Usage::default()
    })
}
