//! F5: the web page and the page about the API: files that are in the program, and the headers they go out with.
//!
//! Knows nothing of the service; the pages ask it over the same routes as everyone.

use axum::Router;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use axum::routing::get;

/// Path, type and contents of each file. The pages name the others relatively, so that a proxy may put a prefix before all of it.
const FILES: [(&str, &str, &str); 18] = [
    ("/", HTML, include_str!("index.html")),
    ("/docs", HTML, include_str!("docs.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("/page/icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("/page/theme.js", SCRIPT, include_str!("theme.js")),
    ("/page/app.js", SCRIPT, include_str!("app.js")),
    ("/page/answer.js", SCRIPT, include_str!("answer.js")),
    ("/page/api.js", SCRIPT, include_str!("api.js")),
    ("/page/boxes.js", SCRIPT, include_str!("boxes.js")),
    ("/page/card.js", SCRIPT, include_str!("card.js")),
    ("/page/curl.js", SCRIPT, include_str!("curl.js")),
    ("/page/docs.js", SCRIPT, include_str!("docs.js")),
    ("/page/dom.js", SCRIPT, include_str!("dom.js")),
    ("/page/evidence.js", SCRIPT, include_str!("evidence.js")),
    ("/page/markdown.js", SCRIPT, include_str!("markdown.js")),
    ("/page/pictures.js", SCRIPT, include_str!("pictures.js")),
    ("/page/repositories.js", SCRIPT, include_str!("repositories.js")),
    ("/page/schema.js", SCRIPT, include_str!("schema.js")),
];

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Beside those that every answer has (`guard`). A file of a new version must not meet scripts of an old one, and from this machine nothing is slow to ask for.
const HEADERS: [(HeaderName, &str); 2] =
    [(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"), (header::CACHE_CONTROL, "no-cache")];

/// The routes of the pages. They need no key: there is nothing in them, and what they ask for needs one.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
        router.route(path, get(move || async move { file(kind, text) }))
    })
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    (HEADERS, [(header::CONTENT_TYPE, kind)], text)
}

#[cfg(test)]
mod tests {
    use super::*;

    use axum::body::{Body, to_bytes};
    use axum::http::{Request, StatusCode};
    use tower::ServiceExt;

    async fn fetch(path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router::<()>().with_state(()).oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The values of attributes and imports that name files.
    fn named<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
        text.split(before).skip(1).filter_map(|rest| rest.split(after).next()).collect()
    }

    #[tokio::test]
    async fn every_file_that_a_page_names_is_served() {
        for page in ["/", "/docs"] {
            let (status, text) = fetch(page).await;
            assert_eq!(status, StatusCode::OK);
            let files = [named(&text, "src=\"", '"'), named(&text, "rel=\"stylesheet\" href=\"", '"')].concat();
            assert!(files.len() >= 3, "{files:?}");
            for file in files {
                assert_eq!(fetch(&format!("/{file}")).await.0, StatusCode::OK, "{file}");
            }
        }
    }

    #[tokio::test]
    async fn every_import_of_a_script_is_served() {
        for (path, _, text) in FILES.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            for module in named(text, "from \"./", '"') {
                assert_eq!(fetch(&format!("/page/{module}")).await.0, StatusCode::OK, "{path} imports {module}");
            }
        }
    }

    /// The policy would stop it at run time, where nobody looks.
    #[test]
    fn pages_hold_no_inline_script_style_or_foreign_address() {
        for (path, kind, text) in FILES {
            let foreign = named(text, "src=\"http", '"').len() + named(text, "href=\"http", '"').len();
            assert_eq!(foreign, 0, "{path}");
            if kind == HTML {
                assert!(
                    !text.contains("<script>") && !text.contains("<style") && !text.contains(" style=\""),
                    "{path}"
                );
                assert!(!text.contains(" onclick=") && !text.contains(" onload="), "{path}");
            }
            assert!(!text.contains("innerHTML"), "{path}");
        }
    }
}
