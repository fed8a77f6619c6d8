//! F5: bodies and parameters as typed values, or an error that names what is wrong with them.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// A body of JSON. Nothing but JSON is taken for it, and no field is ignored if the type knows its fields.
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        check_media_type(request.headers())?;
        let body = body(request, state).await?;
        // Base64 of pictures is megabytes, which are not read on a thread that serves others.
        match body.len() {
            0..LARGE => parse(&body),
            _ => tokio::task::block_in_place(|| parse(&body)),
        }
        .map(Json)
    }
}

/// A body of so many bytes takes milliseconds to read.
const LARGE: usize = 256 << 10;

/// The whole body of a request, within the limit that the router sets.
///
/// # Errors
/// 413 for one that is too large, 400 for one that ends early.
pub async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "the body is longer than this service reads: send less, or raise the setting `server.max_body_bytes`",
        ),
        _ => ApiError::malformed("body_incomplete", "the body ended before it was whole: send it again"),
    })
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let named = headers.get(CONTENT_TYPE).map(|it| it.to_str().unwrap_or_default());
    let essence = named.and_then(|it| it.split(';').next()).map(|it| it.trim().to_ascii_lowercase());
    let is_json = |it: &str| it == "application/json" || (it.starts_with("application/") && it.ends_with("+json"));
    match essence {
        Some(essence) if is_json(&essence) => Ok(()),
        _ => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media_type",
            "the body is not marked as JSON: send it with `Content-Type: application/json`",
        )),
    }
}

/// Reads JSON: what is none is 400, what is of another shape 422.
///
/// # Errors
/// Those two.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(ApiError::malformed("empty", "the body is empty: send a JSON object"));
    }
    // Serde takes a list for an object whose fields stand in their order, which no document promises.
    if body.iter().find(|it| !it.is_ascii_whitespace()) == Some(&b'[') {
        return Err(ApiError::invalid("invalid_field", "the body is a list: send a JSON object"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        if !cause.is_data() {
            return ApiError::malformed("invalid_json", format!("the body is no JSON: {cause}"));
        }
        let error = ApiError::invalid(data_code(&cause), said(&cause));
        let (path, named) = (shown(&path), named_field(&cause).map(|it| shown(&it)));
        match named {
            Some(field) if path == "." => error.of(field),
            Some(field) if path != field && !path.ends_with(&format!(".{field}")) => {
                error.of(format!("{path}.{field}"))
            }
            _ if path == "." => error,
            _ => error.of(path),
        }
    })?;
    deserializer.end().map_err(|cause| ApiError::malformed("invalid_json", format!("the body is no JSON: {cause}")))?;
    Ok(value)
}

/// What serde says, without the place, which is a line and a column of a text that nobody has before him. It repeats values and names of
/// any length.
fn said(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |it| it.0);
    match text.split_once(", expected struct ") {
        // Names of types are ours alone.
        Some((before, _)) => shown(&format!("{before}, expected an object")),
        None => shown(text),
    }
}

/// Characters of a body that an error shows.
const MOST_SHOWN: usize = 300;

/// What of a body stands in a message: one line, and not all of it.
fn shown(text: &str) -> String {
    let line = text.chars().map(|it| if it.is_control() { ' ' } else { it });
    let mut shown: String = line.clone().take(MOST_SHOWN).collect();
    if line.count() > MOST_SHOWN {
        shown.push('…');
    }
    shown
}

fn data_code(cause: &serde_json::Error) -> &'static str {
    let text = cause.to_string();
    let codes = [
        ("unknown field", "unknown_field"),
        ("missing field", "missing_field"),
        ("duplicate field", "duplicate_field"),
    ];
    codes.into_iter().find(|it| text.starts_with(it.0)).map_or("invalid_field", |it| it.1)
}

fn named_field(cause: &serde_json::Error) -> Option<String> {
    let text = cause.to_string();
    let rest =
        ["unknown field `", "missing field `", "duplicate field `"].iter().find_map(|it| text.strip_prefix(it))?;
    Some(rest.split('`').next()?.to_owned())
}

/// A segment of the path.
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|it| Path(it.0)).map_err(|_| {
            ApiError::malformed("invalid_path", "the path of the request is not UTF-8 when decoded: encode it again")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        k: usize,
        #[serde(default)]
        images: Vec<Inner>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        data: String,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Named {
        image_url: Url,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Url {
        url: String,
    }

    #[track_caller]
    fn check(body: &str, status: u16, code: &str, param: Option<&str>) {
        let error = parse::<Outer>(body.as_bytes()).expect_err("refused");
        assert_eq!((error.status.as_u16(), error.code, error.param.as_deref()), (status, code, param), "{error:?}");
        assert!(!error.message.contains('\n') && !error.message.contains(" at line ") || status == 400, "{error:?}");
    }

    #[test]
    fn a_body_is_refused_by_what_is_wrong_with_it() {
        check("", 400, "empty", None);
        check(" \n", 400, "empty", None);
        check("{", 400, "invalid_json", None);
        check("{\"k\": 1} x", 400, "invalid_json", None);
        check("\"k\"", 422, "invalid_field", None);
        check("[1, []]", 422, "invalid_field", None);
        let error = parse::<Outer>(b"\"k\"").expect_err("refused");
        assert_eq!(error.message, "invalid type: string \"k\", expected an object");
        check("{\"k\": 1, \"image\": []}", 422, "unknown_field", Some("image"));
        check("{\"images\": []}", 422, "missing_field", Some("k"));
        check("{\"k\": \"1\"}", 422, "invalid_field", Some("k"));
        check("{\"k\": -1}", 422, "invalid_field", Some("k"));
        check("{\"k\": 1, \"k\": 2}", 422, "duplicate_field", Some("k"));
        check(
            "{\"k\": 1, \"images\": [{\"data\": \"\"}, {\"data\": 5}]}",
            422,
            "invalid_field",
            Some("images[1].data"),
        );
        check("{\"k\": 1, \"images\": [{\"url\": \"\"}]}", 422, "unknown_field", Some("images[0].url"));
        check("{\"k\": 1, \"images\": [{}]}", 422, "missing_field", Some("images[0].data"));
        let error = parse::<Named>(br#"{"image_url": {}}"#).expect_err("refused");
        assert_eq!(error.param.as_deref(), Some("image_url.url"), "a name that ends as another begins");
        let long = "x\n".repeat(1 << 16);
        for body in [serde_json::json!({"k": long}), serde_json::json!({"k": 1, long: 1})] {
            let error = parse::<Outer>(body.to_string().as_bytes()).expect_err("refused");
            let lengths = (error.message.len(), error.param.map_or(0, |it| it.len()));
            assert!(lengths.0 < 400 && lengths.1 < 400 && !error.message.contains('\n'), "{lengths:?}");
        }
        assert!(parse::<Outer>(b"{\"k\": \"\xff\"}").is_err_and(|it| it.status == 400), "bytes that are no UTF-8");
    }

    #[test]
    fn nothing_but_json_is_taken_for_json() {
        let with = |value: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, axum::http::HeaderValue::from_static(value))]);
            check_media_type(&headers).is_ok()
        };
        assert!(with("application/json") && with("Application/JSON; charset=utf-8") && with("application/a+json"));
        assert!(!with("text/plain") && !with("application/x-json-no") && check_media_type(&HeaderMap::new()).is_err());
    }
}
