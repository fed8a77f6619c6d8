//! F5: tools for agents, over the Model Context Protocol: what they are called with, what they answer, which errors they give.
//!
//! Acts for the user who started it, so that any folder may be named that he can read. Knows nothing of how anything is found, embedded or
//! stored; what it reads from and writes to belongs to the protocol alone.

mod answers;
mod arguments;
mod asking;
mod caller;
mod error;
mod indexing;
mod status;
mod tools;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::service::pictures::Pictures;
use crate::service::{Service, Usual};
use answers::Answer;
use caller::Caller;
pub use error::ServeError;
use error::ToolError;
use tools::Tool;

/// Bytes of a message: the protocol gives a picture in base64, and a message that is longer is dropped without an answer.
const LONGEST_MESSAGE: usize = 256 << 20;

const INSTRUCTIONS: &str = "Sightline finds the code that an issue is about. When you have a bug report, a feature request, an error message or a \
screenshot and don't know where in the repository it belongs, call `locate_issue` before you search by hand, with the text as it is; then open the \
first results and check them. It is no search for names: where you know a name, search for that. Nothing has to be indexed first.";

/// What the tools work with.
pub struct Options {
    /// What a question is answered by.
    pub usual: Usual,
    pub pictures: Pictures,
    /// A picture's file may have so many bytes.
    pub picture_bytes: u64,
    /// The folder that paths are relative to, and the repository where none is named.
    pub folder: PathBuf,
    /// The user's own folder.
    pub home: Option<PathBuf>,
}

/// A service that is being started, or why it could not be.
type Starting = Shared<BoxFuture<'static, Result<Arc<Service>, String>>>;

/// The tools.
pub struct Tools {
    service: Starting,
    options: Options,
}

impl Tools {
    /// Tools that wait for a service which is being started, so that an agent need not.
    pub fn new(service: impl Future<Output = Result<Arc<Service>, String>> + Send + 'static, options: Options) -> Self {
        Tools { service: service.boxed().shared(), options }
    }

    async fn service(&self) -> Result<Arc<Service>, ToolError> {
        self.service.clone().await.map_err(ToolError::NotStarted)
    }

    async fn call(&self, tool: Tool, arguments: JsonObject, caller: &Caller) -> Result<Answer, ToolError> {
        match tool {
            Tool::LocateIssue => self.locate(arguments::read(tool, arguments)?, caller).await,
            Tool::IndexRepository => self.index(arguments::read(tool, arguments)?, caller).await,
            Tool::IndexStatus => self.status(arguments::read(tool, arguments)?).await,
        }
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_title("Sightline");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Tool::ALL.map(tools::described).to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        Tool::named(name).map(tools::described)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&request.name) else {
            return Err(ErrorData::invalid_params(tools::unknown(&request.name), None));
        };
        let caller = Caller::new(context);
        // Whoever cancels drops the work with it.
        let answer = tokio::select! {
            answer = self.call(tool, request.arguments.unwrap_or_default(), &caller) => answer,
            () = caller.cancelled() => Err(ToolError::Cancelled),
        };
        Ok(result(tool, answer).into())
    }
}

fn result(tool: Tool, answer: Result<Answer, ToolError>) -> CallToolResult {
    match answer {
        Ok(Answer { text, structured }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(structured);
            result
        }
        Err(error) => {
            let message = error.for_agents();
            tracing::info!(tool = tool.name(), cause = message, "a tool failed");
            CallToolResult::error(vec![ContentBlock::text(message)])
        }
    }
}

/// Answers a client until its input ends, or `end` comes: what was asked by then gets some seconds.
///
/// # Errors
/// When the client does not begin as the protocol does.
pub async fn serve<R, W>(tools: Tools, input: R, output: W, end: impl Future<Output = ()>) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LONGEST_MESSAGE);
    let mut end = std::pin::pin!(end);
    let begun = tokio::select! {
        begun = tools.serve(transport) => begun,
        () = &mut end => return Ok(()),
    };
    let running = match begun {
        Ok(running) => running,
        // It went before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError(error.to_string())),
    };
    let stop = running.cancellation_token();
    let mut ended = std::pin::pin!(running.waiting());
    let ended = tokio::select! {
        ended = &mut ended => ended,
        () = &mut end => {
            stop.cancel();
            ended.await
        }
    };
    ended.map(drop).map_err(|error| ServeError(error.to_string()))
}
