//! What a route is to the guard, by its path: what is not listed is a route of the service, with every check.

use axum::http::Method;

/// What a route is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Files of the program without data.
    Static,
    /// What watchers ask.
    Probe,
    Metrics,
    /// Progress that is sent as long as somebody listens.
    Events,
    /// A body that goes to disk as it comes.
    Upload,
    Api,
}

impl Class {
    /// By the path as it was sent, which is what the router goes by too.
    pub fn of(method: &Method, path: &str) -> Self {
        let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).splitn(6, '/').collect();
        let is_read = [Method::GET, Method::HEAD].contains(method);
        match segments[..] {
            ["health" | "ready"] => Class::Probe,
            ["metrics"] => Class::Metrics,
            ["" | "docs" | "openapi.json" | "favicon.ico"] | ["page" | "docs", ..] if is_read => Class::Static,
            ["v1", "jobs", _, "events"] if is_read => Class::Events,
            ["v1", "repositories", _, "snapshot"] if method == Method::POST => Class::Upload,
            _ => Class::Api,
        }
    }

    /// Whether it counts against the limits on requests.
    pub fn is_limited(self) -> bool {
        match self {
            Class::Upload | Class::Api => true,
            Class::Static | Class::Probe | Class::Metrics | Class::Events => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(request: &str, expected: Class) {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        assert_eq!(Class::of(&method.parse().expect("a method"), path), expected, "{request}");
    }

    #[test]
    fn what_is_open_is_listed_and_all_else_is_not() {
        for request in ["GET /", "GET /page/app.js", "GET /page/a/b", "HEAD /docs", "GET /openapi.json"] {
            check(request, Class::Static);
        }
        for request in ["GET /health", "HEAD /ready"] {
            check(request, Class::Probe);
        }
        check("GET /metrics", Class::Metrics);
        check("GET /v1/jobs/j1/events", Class::Events);
        check("POST /v1/repositories/r/snapshot", Class::Upload);
        for request in [
            "POST /",
            "GET /pages",
            "GET /v1/models",
            "GET /v1/jobs/j1",
            "GET /v1/jobs/a/b/events",
            "POST /v1/jobs/j1/events",
            "PUT /v1/repositories/r/snapshot",
            "POST /v1/repositories/a/b/snapshot",
            "GET //health",
            "GET /health/",
            "GET /Health",
            "GET /v1/jobs/j1/events/",
            "POST /page/../v1/embeddings",
            "GET /%70age/x",
        ] {
            check(request, Class::Api);
        }
    }
}
