//! F5: the tool that asks a repository.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Tools;
use super::answers::{Answer, Located};
use super::arguments::LocateArguments;
use super::caller::Caller;
use super::error::ToolError;
use super::indexing::Wanted;
use crate::retriever::{Filter, Request};
use crate::service::{Answered, Ask, AskedPicture, Service, ServiceError};
use crate::types::IssueReport;

/// A question waits no longer for another process that makes the index.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is said that a question goes on.
const BEAT: Duration = Duration::from_secs(3);
/// The percentages of a call that are said then: nobody knows how far it is.
const COMPARING: std::ops::Range<u8> = 51..100;

impl Tools {
    /// `locate_issue`.
    pub(super) async fn locate(&self, arguments: LocateArguments, caller: &Caller) -> Result<Answer, ToolError> {
        arguments.check()?;
        let folder = self.options.repository(arguments.path.as_deref())?;
        let detail = arguments.detail.unwrap_or_default();
        let ask = self.ask(arguments).await?;
        let service = self.service().await?;
        let (answered, indexing) = asked(&service, &folder, ask, caller).await?;
        Ok(Located::of(&answered, detail, indexing).answer())
    }

    async fn ask(&self, arguments: LocateArguments) -> Result<Ask, ToolError> {
        let LocateArguments { title, body, images, k, granularity, .. } = arguments;
        let images = images.unwrap_or_default();
        let given = self.options.pictures(&images).await?;
        let mut report =
            IssueReport { title: title.unwrap_or_default(), body: body.unwrap_or_default(), ..IssueReport::default() };
        let mut pictures = Vec::new();
        for picture in self.options.pictures.read(given).await? {
            report.images.push(picture.image);
            pictures.push(AskedPicture { size: picture.size, text: None });
        }
        let usual = self.options.usual;
        let request = Request {
            retriever: usual.retriever,
            granularity: granularity.map_or(usual.granularity, Into::into),
            results: k.unwrap_or(usual.results),
            rerank: usual.rerank,
            exact: false,
            filter: Filter::default(),
        };
        Ok(Ask { report, pictures, request, mode: usual.mode, explain: false })
    }
}

/// Asks a repository, one without an index after its words are indexed; gives how long that took.
async fn asked(
    service: &Service,
    folder: &Path,
    ask: Ask,
    caller: &Caller,
) -> Result<(Answered, Option<Duration>), ToolError> {
    let name = service.name_of(folder);
    match compared(service, &name, ask.clone(), caller).await {
        Err(ServiceError::UnknownRepository { .. } | ServiceError::NotBuilt { .. } | ServiceError::Failed { .. }) => {}
        other => return Ok((other?, None)),
    }
    let start = Instant::now();
    let wanted = Wanted { service, folder, words_only: true, share: (0, 50), patience: Some(PATIENCE) };
    wanted.made(caller).await?;
    let took = start.elapsed();
    Ok((compared(service, &name, ask, caller).await?, Some(took)))
}

/// Asks a repository, and says now and then that it goes on: some clients give up on a call that says nothing.
async fn compared(service: &Service, name: &str, ask: Ask, caller: &Caller) -> Result<Answered, ServiceError> {
    let start = Instant::now();
    let mut asking = std::pin::pin!(service.locate(name, ask));
    for percent in COMPARING {
        tokio::select! {
            answered = &mut asking => return answered,
            () = tokio::time::sleep(BEAT) => {
                let seconds = start.elapsed().as_secs();
                caller.tell(percent, format!("comparing the likeliest code with the issue, {seconds} s so far")).await;
            }
        }
    }
    asking.await
}
