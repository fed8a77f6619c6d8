//! F5: who called a tool: whether he still waits, and how far he is told it is.

use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;

/// The caller of a tool.
pub struct Caller {
    context: RequestContext<RoleServer>,
    /// If he wants to be told of progress.
    token: Option<ProgressToken>,
    /// The percentage that was told last: the protocol wants each to be more than the one before.
    told: AtomicU8,
}

impl Caller {
    pub fn new(context: RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Caller { context, token, told: AtomicU8::new(0) }
    }

    /// Comes when he does not wait any more.
    pub async fn cancelled(&self) {
        self.context.ct.cancelled().await;
    }

    /// Says how far it is, if that is more than was said before.
    pub async fn tell(&self, percent: u8, message: impl Into<String>) {
        let Some(token) = self.token.clone() else { return };
        if self.told.fetch_max(percent, Ordering::Relaxed) >= percent {
            return;
        }
        let progress = ProgressNotificationParam::new(token, percent.into()).with_total(100.0).with_message(message);
        // One who is gone hears nothing, and `cancelled` comes.
        let _ = self.context.peer.notify_progress(progress).await;
    }
}
