//! F5: requests with pictures, as JSON or as a form with files.

use axum::body::Bytes;
use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::State;
use super::error::ApiError;
use super::extract;
use crate::service::pictures::Source;

/// Pictures of one request: the encoders see two, and say of others that they are not seen.
const MOST_PICTURES: usize = 8;

/// A picture of the issue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageInput {
    /// Base64, or a data URL.
    #[schema(min_length = 1)]
    pub data: String,
    /// What it is called in the answer.
    pub name: Option<String>,
    /// The text that it holds, for the modes `vce` and `vce+image`: it is not read then.
    pub text: Option<String>,
}

/// A picture of the request: what it is called in messages and in the answer, and where its bytes are.
pub struct Picture {
    pub param: String,
    pub name: Option<String>,
    /// What it holds, by whoever asks.
    pub text: Option<String>,
    pub source: Source,
}

/// Reads a request as JSON or as a form, with its pictures, which `images` takes out of it where it is JSON.
///
/// # Errors
/// A request that is neither, or of another shape.
pub async fn read<T: DeserializeOwned>(
    state: &State,
    request: Request,
    images: impl FnOnce(&mut T) -> Option<Vec<ImageInput>>,
) -> Result<(T, Vec<Picture>), ApiError> {
    let named = request.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_form = named.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("multipart/form-data");
    if is_form {
        let form = Multipart::from_request(request, state).await;
        let form = form.map_err(|_| malformed_form("it has no boundary in its `Content-Type`"))?;
        return read_form(form).await;
    }
    let extract::Json(mut request) = extract::Json::<T>::from_request(request, state).await?;
    let picture = |(at, it): (usize, ImageInput)| Picture {
        param: format!("images[{at}].data"),
        name: it.name,
        text: it.text,
        source: Source::Data(it.data),
    };
    let pictures = images(&mut request).into_iter().flatten().enumerate().map(picture).collect();
    Ok((request, pictures))
}

async fn read_form<T: DeserializeOwned>(mut form: Multipart) -> Result<(T, Vec<Picture>), ApiError> {
    let (mut fields, mut pictures) = (serde_json::Map::new(), Vec::new());
    while let Some(field) = form.next_field().await.map_err(bad_form)? {
        let name = field.name().unwrap_or_default().to_owned();
        if name == "image" {
            let name = field.file_name().filter(|it| !it.is_empty()).map(str::to_owned);
            let bytes = field.bytes().await.map_err(bad_form)?;
            let param = format!("image[{}]", pictures.len());
            pictures.push(Picture { param, name, text: None, source: Source::Bytes(Bytes::into(bytes)) });
            continue;
        }
        let value = value(&name, field).await?;
        if fields.insert(name.clone(), value).is_some() {
            let message = format!("the form has the field `{name}` twice: send it once");
            return Err(ApiError::invalid("duplicate_field", message).of(name));
        }
    }
    // The same type reads both, so that both know the same fields.
    let text = serde_json::to_vec(&fields).map_err(crate::service::ServiceError::internal)?;
    Ok((extract::parse(&text)?, pictures))
}

/// A field of a form as the JSON that it stands for.
async fn value(name: &str, field: Field<'_>) -> Result<serde_json::Value, ApiError> {
    let text = field.text().await.map_err(bad_form)?;
    let is_json = match name {
        "k" | "exact" | "explain" | "filter" => true,
        // `image` takes files; a list of base64 is for JSON.
        "images" => {
            return Err(ApiError::invalid("unknown_field", "a form has its pictures as files in fields named `image`")
                .of("images"));
        }
        _ => false,
    };
    match is_json {
        false => Ok(serde_json::Value::String(text)),
        true => serde_json::from_str(&text).map_err(|_| {
            ApiError::invalid("invalid_field", format!("`{name}` is no JSON: write a number, true, false or an object"))
                .of(name)
        }),
    }
}

fn bad_form(error: MultipartError) -> ApiError {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "the form is longer than this service reads: send less",
        ),
        _ => malformed_form("it is not as its `Content-Type` says"),
    }
}

fn malformed_form(what: &str) -> ApiError {
    ApiError::malformed("invalid_form", format!("the form can't be read, because {what}: send multipart/form-data"))
}

/// # Errors
/// 413 for more pictures than are read.
pub fn check_count(pictures: &[Picture]) -> Result<(), ApiError> {
    if pictures.len() > MOST_PICTURES {
        let message = format!("there are {} pictures, and a request may have {MOST_PICTURES}", pictures.len());
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_images", message).of("images"));
    }
    Ok(())
}
