//! F5: the tools that there are, as an agent's model reads of them.

use rmcp::model::{JsonObject, ToolAnnotations};
use serde_json::{Value, json};

use super::arguments::{MOST_PICTURES, MOST_RESULTS};

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    LocateIssue,
    IndexRepository,
    IndexStatus,
}

impl Tool {
    pub const ALL: [Tool; 3] = [Tool::LocateIssue, Tool::IndexRepository, Tool::IndexStatus];

    pub fn name(self) -> &'static str {
        match self {
            Tool::LocateIssue => "locate_issue",
            Tool::IndexRepository => "index_repository",
            Tool::IndexStatus => "index_status",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Tool::ALL.into_iter().find(|it| it.name() == name)
    }

    fn title(self) -> &'static str {
        match self {
            Tool::LocateIssue => "Locate an issue",
            Tool::IndexRepository => "Index a repository",
            Tool::IndexStatus => "Status of indexes",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Tool::LocateIssue => {
                "Rank the files and functions of a repository by how likely an issue (bug report, feature request, error message, \
                 screenshot) is about them. Call it when you know what goes wrong but not where. Returns two lists, best first: \
                 functions as `rank. path:first-last name (score)`, and files; scores only order a list. Paths are relative to the \
                 repository. Nothing is changed in it, and files that were edited are seen. A repository without an index gets one of its \
                 words first, which takes seconds; then the likeliest code is compared by an encoder, some seconds more; later calls \
                 are quick."
            }
            Tool::IndexRepository => {
                "Embed all of a repository, so that locate_issue answers in milliseconds and compares all of it, or bring its index up to \
                 date. Not needed before locate_issue. Takes from seconds to many minutes, by the repository's size; returns when done. \
                 When it is interrupted, the next call goes on with what was done. Only Sightline's own data directory is written to."
            }
            Tool::IndexStatus => {
                "Tell which repositories are indexed, whether their indexes are up to date, and how far indexing is. With `path`, of that \
                 repository alone."
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let annotations = ToolAnnotations::new().open_world(false).idempotent(true);
        match self {
            Tool::LocateIssue | Tool::IndexStatus => annotations.read_only(true),
            Tool::IndexRepository => annotations.read_only(false).destructive(false),
        }
    }

    fn input(self) -> Value {
        let path = |what: &str| json!({"type": "string", "description": what});
        let properties = match self {
            Tool::LocateIssue => json!({
                "path": path(REPOSITORY),
                "title": {"type": "string", "description": "The issue's title, or what goes wrong in one sentence."},
                "body": {
                    "type": "string",
                    "description": "The rest of the issue as it is, Markdown or text: steps, error messages, stack traces, names."
                },
                "images": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": MOST_PICTURES,
                    "description": "Screenshots, each the path of a file on this machine, or a data URL. The built-in model reads text \
                                    only, and the answer says so."
                },
                "k": {
                    "type": "integer", "minimum": 1, "maximum": MOST_RESULTS,
                    "description": "Results in each list; 10 if not given."
                },
                "granularity": {
                    "type": "string", "enum": ["both", "file", "function"],
                    "description": "Which lists to return; both if not given."
                },
                "detail": {
                    "type": "string", "enum": ["short", "full"],
                    "description": "`full` adds the lines that match and the parts of each score; short if not given."
                }
            }),
            Tool::IndexRepository => json!({"path": path(REPOSITORY)}),
            Tool::IndexStatus => json!({"path": path("A repository's folder; all repositories if not given.")}),
        };
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }

    fn output(self) -> Value {
        match self {
            Tool::LocateIssue => object(
                json!({
                    "functions": list(of_hit(true)),
                    "files": list(of_hit(false)),
                    "stale": {"type": "boolean", "description": "Whether files have changed that the answer does not know of."},
                    "notes": list(json!({"type": "string"})),
                }),
                &["functions", "files", "stale", "notes"],
            ),
            Tool::IndexRepository => object(
                json!({
                    "path": TEXT(), "seconds": NUMBER(), "files": COUNT(), "functions": COUNT(),
                    "windows": COUNT(), "vectors": COUNT(), "embedded": COUNT(), "skipped": COUNT(),
                }),
                &["path", "seconds", "files", "functions", "windows", "vectors", "embedded", "skipped"],
            ),
            Tool::IndexStatus => object(
                json!({
                    "repositories": list(object(
                        json!({
                            "path": TEXT(), "status": {"type": "string", "enum": ["building", "ready", "partial", "failed"]},
                            "stale": {"type": "boolean"}, "files": COUNT(), "functions": COUNT(), "windows": COUNT(),
                            "vectors": COUNT(), "commit": TEXT(), "progress": TEXT(), "problem": TEXT(),
                        }),
                        &["path", "status", "stale", "files", "functions", "windows", "vectors"],
                    )),
                    "more": COUNT(),
                }),
                &["repositories", "more"],
            ),
        }
    }
}

const REPOSITORY: &str =
    "The repository's folder, absolute or relative to the folder that this server was started in; that folder if not given.";

const TEXT: fn() -> Value = || json!({"type": "string"});
const COUNT: fn() -> Value = || json!({"type": "integer"});
const NUMBER: fn() -> Value = || json!({"type": "number"});

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn of_hit(is_function: bool) -> Value {
    let line = object(json!({"line": COUNT(), "text": TEXT()}), &["line", "text"]);
    let parts = ["lexical", "mention", "context", "dense"];
    let scores: JsonObject = parts.iter().map(|it| ((*it).to_owned(), NUMBER())).collect();
    let mut properties = json!({"path": TEXT(), "score": NUMBER(), "lines": list(line), "scores": object(scores.into(), &parts)});
    let mut required = vec!["path", "score"];
    if is_function {
        for (name, schema) in [("function", TEXT()), ("start_line", COUNT()), ("end_line", COUNT())] {
            properties[name] = schema;
            required.push(name);
        }
    }
    object(properties, &required)
}

/// A tool as the protocol has it.
pub fn described(tool: Tool) -> rmcp::model::Tool {
    let schema = |value: Value| match value {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    rmcp::model::Tool::new(tool.name(), tool.description(), schema(tool.input()))
        .with_title(tool.title())
        .with_raw_output_schema(schema(tool.output()).into())
        .with_annotations(tool.annotations())
}

/// What is said of a tool that there is not.
pub fn unknown(name: &str) -> String {
    let name: String = name.chars().filter(|it| !it.is_control()).take(64).collect();
    let known: Vec<&str> = Tool::ALL.iter().map(|it| it.name()).collect();
    format!("there is no tool `{name}`: call one of {}", known.join(", "))
}
