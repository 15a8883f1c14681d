//! What the APIs refuse, rule by rule, and which of the rules hold.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Target;

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $rule:ident = $name:literal, $target:ident, $default:ident;)+) => {
        /// One thing that an API refuses in a conversation. The first paragraph of each says what is refused, the second what an
        /// exporter does so that it is not.
        ///
        /// The APIs change and their servers differ, so every rule has a switch: see [`Profile`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $rule,)+
        }

        impl Rule {
            /// Every rule, API by API.
            pub const ALL: &[Self] = &[$(Self::$rule,)+];

            /// Its name in settings and reports: kebab-case, with the API in front.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)+
                }
            }

            /// The API whose rule it is.
            pub const fn target(self) -> Target {
                match self {
                    $(Self::$rule => Target::$target,)+
                }
            }

            /// Whether [`Profile::default`] holds it.
            pub const fn is_default(self) -> bool {
                match self {
                    $(Self::$rule => rules!(@is $default),)+
                }
            }
        }
    };
    (@is on) => { true };
    (@is off) => { false };
}

rules! {
    /// A value that is neither `{"messages": […]}` nor an array, or a message that is no object.
    ///
    /// Never arises from an exporter.
    ChatShape = "chat-shape", ChatCompletions, on;
    /// A conversation without a message.
    ///
    /// There is nothing to export: report it.
    ChatNoMessages = "chat-no-messages", ChatCompletions, on;
    /// A role other than `system`, `developer`, `user`, `assistant` and `tool`; the old `function` is one.
    ///
    /// Write `tool` messages for results.
    ChatUnknownRole = "chat-unknown-role", ChatCompletions, on;
    /// A conversation in which no user speaks.
    ///
    /// Write the checkpoint, or what the host injected, as a user message.
    ChatNoUserMessage = "chat-no-user-message", ChatCompletions, on;
    /// A last message that is neither `user` nor `tool`, so that there is nothing to answer.
    ///
    /// Report it, or export without this rule what the host will add its next message to. Invent none.
    ChatLastMessage = "chat-last-message", ChatCompletions, off;
    /// A system or developer message behind the first message. Servers with strict chat templates refuse it.
    ///
    /// Merge those at the start into one, and write later ones as user text.
    ChatLateSystem = "chat-late-system", ChatCompletions, off;
    /// Two user messages in a row. Servers with strict chat templates refuse it.
    ///
    /// Merge them into one, as parts or paragraphs.
    ChatRepeatedUser = "chat-repeated-user", ChatCompletions, off;
    /// Two assistant messages in a row. Servers with strict chat templates refuse it.
    ///
    /// Merge them into one: texts as paragraphs, calls in one list.
    ChatRepeatedAssistant = "chat-repeated-assistant", ChatCompletions, off;
    /// A call in `tool_calls` that no tool message answers.
    ///
    /// Write a result that says there is none, or leave the call out.
    ChatUnansweredCall = "chat-unanswered-call", ChatCompletions, on;
    /// A tool message whose id is no call of the assistant message before it.
    ///
    /// Leave the result out, or write it as user text.
    ChatOrphanResult = "chat-orphan-result", ChatCompletions, on;
    /// A second tool message for one call.
    ///
    /// Keep one of them.
    ChatDuplicateResult = "chat-duplicate-result", ChatCompletions, on;
    /// A tool message that comes only after another message followed its call.
    ///
    /// Move the results to their calls, whatever the order they were logged in.
    ChatLateResult = "chat-late-result", ChatCompletions, on;
    /// A tool message without a `tool_call_id`.
    ///
    /// Write the id of the call.
    ChatResultWithoutId = "chat-result-without-id", ChatCompletions, on;
    /// `tool_calls` that are no array or stand in another message than an assistant's, or a call without `id`, `type` and the
    /// object of its type (`function` with a `name`, or `custom` with `name` and `input`).
    ///
    /// Write all of them.
    ChatCallShape = "chat-call-shape", ChatCompletions, on;
    /// `tool_calls` that are an empty array.
    ///
    /// Leave the key out.
    ChatEmptyCalls = "chat-empty-calls", ChatCompletions, on;
    /// One id for two calls of a message.
    ///
    /// Give each call an id of its own, and its result the same.
    ChatDuplicateCallId = "chat-duplicate-call-id", ChatCompletions, on;
    /// A function name that is not 1 to 64 letters, digits, `_` and `-`.
    ///
    /// Replace other characters, and cut.
    ChatFunctionName = "chat-function-name", ChatCompletions, on;
    /// `arguments` that are no string.
    ///
    /// Write the arguments as JSON in a string.
    ChatArgumentsString = "chat-arguments-string", ChatCompletions, on;
    /// `arguments` whose text is no JSON object. Servers that parse it refuse it.
    ///
    /// Write `{}` for nothing, and wrap what is no object in one. Shorten arguments leaf by leaf, never their text.
    ChatArgumentsJson = "chat-arguments-json", ChatCompletions, on;
    /// `content` that is null or absent in another message than one with `tool_calls`.
    ///
    /// Leave the message out; give a result a placeholder.
    ChatNoContent = "chat-no-content", ChatCompletions, on;
    /// `content` that is an empty array.
    ///
    /// As for [`ChatNoContent`](Self::ChatNoContent).
    ChatEmptyContentArray = "chat-empty-content-array", ChatCompletions, on;
    /// `content` that is an empty string. Some servers refuse it.
    ///
    /// Write null beside `tool_calls`, a placeholder in a result, and leave other messages out.
    ChatEmptyText = "chat-empty-text", ChatCompletions, on;
    /// A text part whose text is empty.
    ///
    /// Leave the part out.
    ChatEmptyTextPart = "chat-empty-text-part", ChatCompletions, on;
    /// `content` that is neither string nor array nor null, or a part that is no object or lacks what its type demands.
    ///
    /// Never arises from an exporter.
    ChatContentShape = "chat-content-shape", ChatCompletions, on;
    /// A part of a type that its role does not take: `text` goes everywhere, `image_url`, `input_audio` and `file` only into user
    /// messages, `refusal` only into assistant messages.
    ///
    /// Move what a tool result shows into a user message after all results, or say that it was left out.
    ChatPartType = "chat-part-type", ChatCompletions, on;
    /// A message with `tool_calls` and no `reasoning_content`. DeepSeek-style servers refuse it.
    ///
    /// Write the reasoning text back as it came, or drop the whole turn.
    ChatReasoningRequired = "chat-reasoning-required", ChatCompletions, off;
    /// Any other assistant message without `reasoning_content`. Some DeepSeek-style servers want it of every turn.
    ///
    /// As for [`ChatReasoningRequired`](Self::ChatReasoningRequired).
    ChatReasoningRequiredEverywhere = "chat-reasoning-required-everywhere", ChatCompletions, off;
    /// A message with `reasoning_content`. Servers that do not know the field refuse it.
    ///
    /// Leave reasoning out.
    ChatReasoningRefused = "chat-reasoning-refused", ChatCompletions, off;

    /// A value that is neither `{"input": …}` nor an array, an input that is neither string nor array, or an item that is no
    /// object with a `type` or a `role`.
    ///
    /// Never arises from an exporter.
    ResponsesShape = "responses-shape", Responses, on;
    /// An input without an item, or an empty string.
    ///
    /// There is nothing to export: report it.
    ResponsesNoInput = "responses-no-input", Responses, on;
    /// An item of a kind that the API does not know.
    ///
    /// Leave it out, and report it.
    ResponsesUnknownItem = "responses-unknown-item", Responses, on;
    /// A message with a role other than `user`, `system`, `developer` and `assistant`.
    ///
    /// Write results as output items, not as messages.
    ResponsesUnknownRole = "responses-unknown-role", Responses, on;
    /// A message's `content` that is neither string nor array, or a part that is no object or lacks what its type demands.
    ///
    /// Never arises from an exporter.
    ResponsesContentShape = "responses-content-shape", Responses, on;
    /// A part of a type that its role does not take: `input_text`, `input_image`, `input_file` and `input_audio` for user, system
    /// and developer, `output_text` and `refusal` for the assistant.
    ///
    /// Name parts by the role of their message.
    ResponsesPartType = "responses-part-type", Responses, on;
    /// An item without a field that its kind demands, or with one of another JSON type. `summary` of reasoning has
    /// [a rule of its own](Self::ResponsesSummary), as has [`encrypted_content`](Self::ResponsesCompactionContent).
    ///
    /// Write every field, `arguments` as a string.
    ResponsesMissingField = "responses-missing-field", Responses, on;
    /// A reasoning item whose `summary` is no array.
    ///
    /// Write `[]` for none.
    ResponsesSummary = "responses-summary", Responses, on;
    /// A `compaction` item without `encrypted_content`.
    ///
    /// Leave the item out: it says nothing.
    ResponsesCompactionContent = "responses-compaction-content", Responses, on;
    /// A `compaction` item, which only the service that made it can read. Hold the rule for every other service.
    ///
    /// Leave the item out and say so; what it stood for is unreadable.
    ResponsesForeignCompaction = "responses-foreign-compaction", Responses, off;
    /// A function, custom or shell call without an output of its `call_id` in the input.
    ///
    /// Write an output that says there is none, or leave out the call and the reasoning before it.
    ResponsesUnansweredCall = "responses-unanswered-call", Responses, on;
    /// An output without a call of its `call_id` in the input. Not seen where the input continues what the service stores
    /// (`previous_response_id`, `conversation`, `item_reference`).
    ///
    /// Leave the output out, or write it as user text.
    ResponsesOrphanOutput = "responses-orphan-output", Responses, on;
    /// An output that comes before its call.
    ///
    /// Move it behind the call.
    ResponsesOutputBeforeCall = "responses-output-before-call", Responses, on;
    /// A second output for one call.
    ///
    /// Keep one of them.
    ResponsesDuplicateOutput = "responses-duplicate-output", Responses, on;
    /// An output of another kind than its call: a custom call wants a `custom_tool_call_output`. Local shell calls also take a
    /// `function_call_output`.
    ///
    /// Name the output by the kind of its call.
    ResponsesOutputKind = "responses-output-kind", Responses, on;
    /// A `call_id` that an earlier call has and that no output has answered yet.
    ///
    /// Give each call an id of its own, and its output the same.
    ResponsesDuplicateCallId = "responses-duplicate-call-id", Responses, on;
    /// A `call_id` that is empty or longer than 64 characters.
    ///
    /// Shorten it, in the call and in its output, so that it stays unique.
    ResponsesCallIdLength = "responses-call-id-length", Responses, on;
    /// A function or custom tool name that is not 1 to 64 letters, digits, `_` and `-`.
    ///
    /// Replace other characters, and cut.
    ResponsesToolName = "responses-tool-name", Responses, on;
    /// An item id without the prefix of its kind, such as `msg_`, `rs_`, `fc_` or `ctc_`.
    ///
    /// Leave out ids that the service did not give.
    ResponsesIdPrefix = "responses-id-prefix", Responses, on;
    /// An item id that an earlier item has.
    ///
    /// Leave ids out.
    ResponsesDuplicateId = "responses-duplicate-id", Responses, on;
    /// A reasoning item with an id that no item of the model follows.
    ///
    /// Leave the reasoning out together with what belonged to it, and put nothing between the two.
    ResponsesReasoningWithoutItem = "responses-reasoning-without-item", Responses, on;
    /// Items of the model with ids and no reasoning item before them, in an input that has reasoning with ids elsewhere. Whether an
    /// item was made after reasoning is known to the service alone; this is the reading that never meets its refusal.
    ///
    /// Leave out the ids of items whose reasoning is not sent.
    ResponsesItemWithoutReasoning = "responses-item-without-reasoning", Responses, on;
    /// A call without a reasoning item straight before it. Some gateways to reasoning models want one a call.
    ///
    /// Repeat the turn's reasoning before each of its calls.
    ResponsesReasoningPerCall = "responses-reasoning-per-call", Responses, off;

    /// A value that is neither `{"messages": […]}` nor an array, a `system` that is neither string nor array of text blocks, or a
    /// message that is no object.
    ///
    /// Never arises from an exporter.
    AnthropicShape = "anthropic-shape", Anthropic, on;
    /// A conversation without a message.
    ///
    /// There is nothing to export: report it.
    AnthropicNoMessages = "anthropic-no-messages", Anthropic, on;
    /// A role other than `user` and `assistant`.
    ///
    /// Write tool results as user messages.
    AnthropicUnknownRole = "anthropic-unknown-role", Anthropic, on;
    /// A message of role `system` or `developer`: system text is a field beside the messages.
    ///
    /// Write it into `system` if it came first, else as user text.
    AnthropicSystemMessage = "anthropic-system-message", Anthropic, on;
    /// A first message that is not the user's.
    ///
    /// Begin with the checkpoint, or with a marker for what is left out.
    AnthropicFirstMessage = "anthropic-first-message", Anthropic, on;
    /// Two messages of one role in a row. The API merges them; compatible servers may not.
    ///
    /// Merge them: results first, then the other blocks.
    AnthropicRepeatedRole = "anthropic-repeated-role", Anthropic, on;
    /// A `tool_use` that no `tool_result` answers.
    ///
    /// Write a result that says there is none, or leave the call out.
    AnthropicUnansweredCall = "anthropic-unanswered-call", Anthropic, on;
    /// A `tool_result` whose call is not in the assistant message before.
    ///
    /// Leave the result out, or write it as text.
    AnthropicOrphanResult = "anthropic-orphan-result", Anthropic, on;
    /// A second `tool_result` for one call.
    ///
    /// Keep one of them.
    AnthropicDuplicateResult = "anthropic-duplicate-result", Anthropic, on;
    /// A `tool_result` in a later message than the one straight after its call.
    ///
    /// Move the results to their calls, whatever the order they were logged in.
    AnthropicLateResult = "anthropic-late-result", Anthropic, on;
    /// A `tool_result` behind another block of its message.
    ///
    /// Write results first.
    AnthropicResultNotFirst = "anthropic-result-not-first", Anthropic, on;
    /// Text that is empty or only white space, in a text block or as `content` or `system`.
    ///
    /// Leave it out.
    AnthropicBlankText = "anthropic-blank-text", Anthropic, on;
    /// A message without content, the last one excepted where it is the assistant's.
    ///
    /// Leave the message out, and merge its neighbours.
    AnthropicEmptyContent = "anthropic-empty-content", Anthropic, on;
    /// A last assistant message whose text ends in white space.
    ///
    /// Cut the white space off.
    AnthropicTrailingSpace = "anthropic-trailing-space", Anthropic, on;
    /// A last message that is the assistant's, which several models refuse to continue.
    ///
    /// Report it, or export without this rule what the host will add its next message to. Invent none.
    AnthropicPrefill = "anthropic-prefill", Anthropic, off;
    /// `content` that is neither string nor array, or a block that is no object or lacks what its type demands.
    ///
    /// Never arises from an exporter.
    AnthropicBlockShape = "anthropic-block-shape", Anthropic, on;
    /// A block of a type that is unknown or that its place does not take: calls and thinking are the assistant's; images, documents
    /// and results are the user's; a result holds text, images, documents and search results.
    ///
    /// Move the block, or write its text.
    AnthropicBlockType = "anthropic-block-type", Anthropic, on;
    /// An assistant turn that uses tools and has thinking, but does not start with it. A turn reaches from one user message that is
    /// not made of results to the next.
    ///
    /// Keep a turn's thinking whole and in place, or leave all of it out of a turn that is finished.
    AnthropicThinkingFirst = "anthropic-thinking-first", Anthropic, on;
    /// A latest turn that uses tools and has no thinking, while earlier turns have. Models that think in every turn refuse it; those
    /// that decide for themselves do not.
    ///
    /// Drop thinking from the oldest turns on, never from the latest.
    AnthropicThinkingDropped = "anthropic-thinking-dropped", Anthropic, off;
    /// An assistant message that ends with thinking.
    ///
    /// Leave out thinking that nothing follows.
    AnthropicThinkingLast = "anthropic-thinking-last", Anthropic, on;
    /// A `thinking` block without its `signature`, or `redacted_thinking` without `data`.
    ///
    /// Leave out thinking that another provider wrote, or write it as text.
    AnthropicThinkingSignature = "anthropic-thinking-signature", Anthropic, on;
    /// A call's id that is not made of letters, digits, `_` and `-`, or is empty.
    ///
    /// Rewrite it in the call and in its result, so that it stays unique.
    AnthropicCallId = "anthropic-call-id", Anthropic, on;
    /// A call's id that an earlier call of the conversation has.
    ///
    /// Rewrite it in the later call and in its result.
    AnthropicDuplicateCallId = "anthropic-duplicate-call-id", Anthropic, on;
    /// A tool name that is not 1 to 128 letters, digits, `_` and `-`.
    ///
    /// Replace other characters, and cut.
    AnthropicToolName = "anthropic-tool-name", Anthropic, on;
    /// A call's `input` that is no object.
    ///
    /// Write `{}` for nothing, and wrap what is no object in one.
    AnthropicToolInput = "anthropic-tool-input", Anthropic, on;
    /// A value of more than 32 MB, which is taken as 32,000,000 bytes of compact JSON.
    ///
    /// Leave out images and old results, the oldest first.
    AnthropicRequestSize = "anthropic-request-size", Anthropic, on;
    /// An image whose base64 text is longer than 5 MB, which is 5,242,880 bytes.
    ///
    /// Say in words that an image was left out.
    AnthropicImageSize = "anthropic-image-size", Anthropic, on;
    /// An image with a side of more than 8,000 pixels, or of more than 2,000 in a conversation of more than 20 images. Read from the
    /// heads of PNG, GIF, JPEG and WebP images.
    ///
    /// As for [`AnthropicImageSize`](Self::AnthropicImageSize).
    AnthropicImagePixels = "anthropic-image-pixels", Anthropic, on;
    /// An image of another media type than `image/jpeg`, `image/png`, `image/gif` and `image/webp`.
    ///
    /// As for [`AnthropicImageSize`](Self::AnthropicImageSize).
    AnthropicImageType = "anthropic-image-type", Anthropic, on;

    /// A value that is neither `{"contents": […]}` nor an array, a `systemInstruction` that is no object with text parts, or a
    /// content that is no object.
    ///
    /// Never arises from an exporter.
    GeminiShape = "gemini-shape", Gemini, on;
    /// A conversation without a content.
    ///
    /// There is nothing to export: report it.
    GeminiNoContents = "gemini-no-contents", Gemini, on;
    /// A role other than `user` and `model`.
    ///
    /// Write `model` for the assistant and `user` for everything else.
    GeminiUnknownRole = "gemini-unknown-role", Gemini, on;
    /// A first content that is not the user's.
    ///
    /// Begin with the checkpoint, or with a marker for what is left out.
    GeminiFirstContent = "gemini-first-content", Gemini, on;
    /// A content without parts.
    ///
    /// Leave the content out.
    GeminiNoParts = "gemini-no-parts", Gemini, on;
    /// A part without data, or with more than one of `text`, `inlineData`, `fileData`, `functionCall`, `functionResponse`,
    /// `executableCode` and `codeExecutionResult`.
    ///
    /// Write one part for each.
    GeminiPartData = "gemini-part-data", Gemini, on;
    /// A part that is no object, or whose data has another JSON type than its field demands.
    ///
    /// Never arises from an exporter.
    GeminiPartShape = "gemini-part-shape", Gemini, on;
    /// A text part whose text is empty. One that carries a `thoughtSignature` is taken.
    ///
    /// Leave the part out.
    GeminiEmptyText = "gemini-empty-text", Gemini, on;
    /// A call in a user content, or a response in a model content.
    ///
    /// Write each under its role.
    GeminiPartRole = "gemini-part-role", Gemini, on;
    /// A content with calls that follows another content of the model.
    ///
    /// Merge the two.
    GeminiCallPosition = "gemini-call-position", Gemini, on;
    /// A content with calls that no content with responses follows at once.
    ///
    /// Move the responses there; write one that says there is none for a call without.
    GeminiUnansweredCall = "gemini-unanswered-call", Gemini, on;
    /// A content with responses that does not follow a content with calls at once.
    ///
    /// Leave the response out, or write it as text.
    GeminiOrphanResponse = "gemini-orphan-response", Gemini, on;
    /// A content with more or fewer responses than the content before has calls.
    ///
    /// Write one response a call, all in one content.
    GeminiResponseCount = "gemini-response-count", Gemini, on;
    /// A response whose name is not that of its call.
    ///
    /// Write the name of the call.
    GeminiResponseName = "gemini-response-name", Gemini, on;
    /// A response whose `id` is no call's, or without one where its call has one.
    ///
    /// Write the id of the call, or neither.
    GeminiResponseId = "gemini-response-id", Gemini, on;
    /// A `response` that is no object.
    ///
    /// Wrap text as `{"output": …}`, and an error as `{"error": …}`.
    GeminiResponseObject = "gemini-response-object", Gemini, on;
    /// A call's `args` that are no object.
    ///
    /// Leave them out for nothing, and wrap what is no object in one.
    GeminiArgsObject = "gemini-args-object", Gemini, on;
    /// A function name that does not start with a letter or `_`, or is not 1 to 64 letters, digits, `_`, `.`, `:` and `-`.
    ///
    /// Replace other characters, and cut, in the call and in its response.
    GeminiFunctionName = "gemini-function-name", Gemini, on;
    /// A first call of a content without `thoughtSignature`. Newer models refuse it.
    ///
    /// Write the signature back as it came. Calls of other models have none; write those as text.
    GeminiThoughtSignature = "gemini-thought-signature", Gemini, off;
    /// An `id` in a call or a response, which Vertex and AI Studio do not both take.
    ///
    /// Leave ids out.
    GeminiIdRefused = "gemini-id-refused", Gemini, off;
}

impl Rule {
    /// The rule of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Which rules hold. In JSON it is the list of their names, and unknown names are refused.
///
/// The default is the stricter reading that every server of an API accepts. Rules are off in it that contradict one another
/// ([`ChatReasoningRequired`](Rule::ChatReasoningRequired) and [`ChatReasoningRefused`](Rule::ChatReasoningRefused)), that ask for what
/// only some models write, or that cost a conversation what most servers would take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Profile(BTreeSet<Rule>);

impl Default for Profile {
    fn default() -> Self {
        Self(Rule::ALL.iter().copied().filter(|rule| rule.is_default()).collect())
    }
}

impl Profile {
    /// Only what the services themselves refuse: without the rules that are known of some compatible servers or models alone.
    pub fn lenient() -> Self {
        [
            Rule::ChatNoUserMessage,
            Rule::ChatLastMessage,
            Rule::ChatArgumentsJson,
            Rule::ChatEmptyText,
            Rule::ResponsesItemWithoutReasoning,
            Rule::AnthropicRepeatedRole,
        ]
        .into_iter()
        .fold(Self::default(), Self::without)
    }

    /// The default for servers with strict chat templates: one system message, first; turns of user and assistant alternate.
    pub fn strict_roles() -> Self {
        Self::default()
            .with(Rule::ChatLateSystem)
            .with(Rule::ChatRepeatedUser)
            .with(Rule::ChatRepeatedAssistant)
            .with(Rule::AnthropicPrefill)
    }

    /// The default for Chat Completions servers that want reasoning back.
    pub fn reasoning_required() -> Self {
        Self::default().with(Rule::ChatReasoningRequired)
    }

    /// The default for Chat Completions servers that refuse reasoning.
    pub fn reasoning_refused() -> Self {
        Self::default().with(Rule::ChatReasoningRefused)
    }

    /// No rule at all, to build upon.
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// With a rule.
    #[must_use]
    pub fn with(mut self, rule: Rule) -> Self {
        self.0.insert(rule);
        self
    }

    /// Without a rule.
    #[must_use]
    pub fn without(mut self, rule: Rule) -> Self {
        self.0.remove(&rule);
        self
    }

    /// Whether a rule holds.
    pub fn holds(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }

    /// The rules that hold, API by API.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.0.iter().copied()
    }
}
