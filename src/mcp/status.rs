//! F5: the tool that tells which repositories are indexed.

use super::Tools;
use super::answers::{Answer, Repositories};
use super::arguments::PathArguments;
use super::error::ToolError;
use crate::service::ServiceError;

impl Tools {
    /// `index_status`.
    pub(super) async fn status(&self, arguments: PathArguments) -> Result<Answer, ToolError> {
        let path = arguments.path.filter(|it| !it.trim().is_empty());
        let folder = path.map(|it| self.options.repository(Some(&it))).transpose()?;
        let service = self.service().await?;
        let Some(folder) = folder else {
            return Ok(Repositories::of(&service.repositories().await).answer());
        };
        match service.repository(&service.name_of(&folder)).await {
            Ok(view) => Ok(Repositories::of(&[view]).answer()),
            Err(ServiceError::UnknownRepository { .. }) => Ok(Repositories::none_of(&folder)),
            Err(error) => Err(error.into()),
        }
    }
}
