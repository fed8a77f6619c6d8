//! Pictures of requests, from every place that they can come from; those from the web from listeners of the tests' own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::base64::prelude::{BASE64_STANDARD, Engine as _};

use super::*;

const LIMITS: Limits = Limits { max_bytes: 100_000, max_pixels: 1_000_000 };

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).expect("a fixture")
}

fn pictures(web: Web) -> Pictures {
    Pictures::new(LIMITS, web)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

fn read(pictures: &Pictures, source: Source) -> Result<Vec<u8>, PictureError> {
    let given = Given { param: "images[0]".to_owned(), source };
    match run(pictures.read(vec![given])) {
        Ok(mut read) => Ok(read.pop().expect("one for each").image.bytes),
        Err(bad) => Err(bad.error),
    }
}

/// What becomes of a source: the bytes, or the code and a part of the message.
#[track_caller]
fn check(pictures: &Pictures, source: Source, expected: Result<&[u8], (&str, &str)>) {
    let found = read(pictures, source);
    match expected {
        Ok(bytes) => assert!(found.expect("bytes") == bytes),
        Err((code, part)) => {
            let error = found.expect_err("an error");
            let message = error.to_string();
            assert_eq!(error.code(), code, "{message}");
            assert!(message.contains(part) && !message.contains('\n') && !message.contains("127.0.0"), "{message}");
        }
    }
}

fn data(text: impl Into<String>) -> Source {
    Source::Data(text.into())
}

fn url(text: impl Into<String>) -> Source {
    Source::Url(text.into())
}

fn nowhere() -> Pictures {
    pictures(Web::new(&[]).expect("no hosts"))
}

#[test]
fn a_picture_comes_as_base64_or_as_a_data_url_in_either_field() {
    let png = fixture("checkout.png");
    let encoded = BASE64_STANDARD.encode(&png);
    let in_url = format!("data:image/png;base64,{encoded}");
    for source in [data(&encoded), data(&in_url), url(&in_url), data(encoded.trim_end_matches('='))] {
        check(&nowhere(), source, Ok(&png));
    }
    let broken: Vec<&str> = encoded.as_bytes().chunks(76).map(|it| std::str::from_utf8(it).expect("ASCII")).collect();
    check(&nowhere(), data(broken.join("\r\n")), Ok(&png));
    check(&nowhere(), data(encoded.replace('+', "%2B").replace('/', "%2F")), Ok(&png));
    check(&nowhere(), data(encoded.replace('+', "-").replace('/', "_")), Ok(&png));
}

#[test]
fn what_is_no_picture_says_what_is_wrong() {
    let encoded = |bytes: &[u8]| data(BASE64_STANDARD.encode(bytes));
    let jpeg = fixture("images/baseline_444.jpg");
    check(&nowhere(), data(""), Err(("image_empty", "empty")));
    check(&nowhere(), data("no base64!"), Err(("image_base64", "decoded")));
    check(&nowhere(), data("%"), Err(("image_base64", "%")));
    check(&nowhere(), data("data:image/png;base64,"), Err(("image_data_url", "no bytes")));
    check(&nowhere(), url("data:text/html;base64,AAAA"), Err(("image_data_url", "no picture")));
    check(&nowhere(), encoded(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), Err(("image_format", "not known")));
    check(&nowhere(), encoded(&jpeg[..jpeg.len() - 128]), Err(("image_damaged", "cut short")));
    check(&nowhere(), encoded(&[0; 100_001]), Err(("image_too_large", "100001 bytes")));
    check(&nowhere(), encoded(&picture_of(8_000_000, 4_294_967_295)), Err(("image_too_large", "pixels")));
    check(&nowhere(), encoded(&picture_of(100_000, 100_000)), Err(("image_too_large", "pixels")));
}

/// A PNG that is nothing but its header, of 8-bit RGB.
fn picture_of(width: u32, height: u32) -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
    file.extend(&header);
    file.extend(crc32fast::hash(&header).to_be_bytes());
    file
}

/// The limit is in the arithmetic of the sizes, so that a picture of one row is enough.
#[test]
fn a_picture_out_of_all_proportion_is_refused() {
    let row = |width: u32| {
        let mut file = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
        file.extend(width.to_le_bytes());
        file.extend(b"\x01\0\0\0\x01\0\x18\0");
        file.resize(54, 0);
        file.resize(54 + (width as usize * 3).next_multiple_of(4), 0x80);
        file
    };
    let source = |width| data(BASE64_STANDARD.encode(row(width)));
    check(&nowhere(), source(200), Ok(&row(200)));
    check(&nowhere(), source(227), Err(("image_aspect_ratio", "limit of 200")));
}

#[test]
fn the_first_bad_picture_of_a_request_is_named() {
    let good = BASE64_STANDARD.encode(fixture("checkout.png"));
    let given = |number: usize, text: &str| Given { param: format!("inputs[{number}].images[0]"), source: data(text) };
    let all = [given(0, &good), given(1, "AAAA"), given(2, &good), given(3, "?")];
    let bad = run(nowhere().read(all.to_vec())).expect_err("a bad one");
    assert_eq!((bad.param.as_str(), bad.error.code()), ("inputs[1].images[0]", "image_format"));
    let read = run(nowhere().read(all[..1].to_vec())).expect("good ones");
    assert_eq!(read[0].image.name, "inputs[0].images[0]");
}

/// One who answers every connection with these bytes, and then waits until the other end goes. Gives where, and counts.
fn listener(answer: Vec<u8>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, connections) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(&answer);
            let is_closed = answer.starts_with(b"HTTP/1.1 200 closing");
            if is_closed {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (address, connections)
}

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {head}\r\n").into_bytes();
    if !head.to_lowercase().contains("content-length") {
        bytes.extend(format!("content-length: {}\r\n", body.len()).bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    bytes
}

/// A web in which the listed host stands at `address`, wherever that is.
fn web_at(address: SocketAddr) -> Web {
    let mut web = Web::new(&["pictures.test".to_owned()]).expect("a host");
    web.look_up = Arc::new(move |_, _| Ok(vec![address]));
    web.permits = |_| true;
    web
}

const ADDRESS: &str = "http://pictures.test/a.png?size=1#part";

#[test]
fn a_picture_comes_from_a_listed_host() {
    let png = fixture("checkout.png");
    let (address, _) = listener(answer("200 OK\r\ncontent-type: image/png", &png));
    let web = pictures(web_at(address));
    check(&web, url(ADDRESS), Ok(&png));
    check(&web, url("HTTP://Pictures.TEST:80/"), Ok(&png));
}

#[test]
fn an_answer_that_is_no_picture_is_refused() {
    #[track_caller]
    fn check_answer(bytes: Vec<u8>, expected: (&str, &str)) {
        let (address, _) = listener(bytes);
        check(&pictures(web_at(address)), url(ADDRESS), Err(expected));
    }
    check_answer(answer("404 Not Found", b""), ("image_fetch", "404"));
    check_answer(answer("200 OK", b"<html>"), ("image_format", "not known"));
    check_answer(answer("200 OK", b""), ("image_empty", "empty"));
    check_answer(answer("200 OK", &[0; 100_001]), ("image_too_large", "limit of 100000"));
    // The length alone is enough, and a length is not needed.
    check_answer(answer("200 OK\r\ncontent-length: 9999999999", b""), ("image_too_large", "9999999999"));
    let unending = [b"HTTP/1.1 200 closing\r\nconnection: close\r\n\r\n".to_vec(), vec![0; 200_000]].concat();
    check_answer(unending, ("image_too_large", "limit of 100000"));
    check_answer(b"nonsense\r\n\r\n".to_vec(), ("image_fetch", "HTTP"));
}

#[test]
fn a_redirect_leads_nowhere() {
    let (aim, reached) = listener(answer("200 OK", &fixture("checkout.png")));
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let (address, _) = listener(answer(&format!("{status}\r\nlocation: http://{aim}/a.png"), b""));
        check(&pictures(web_at(address)), url(ADDRESS), Err(("image_fetch", "redirects are not followed")));
    }
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}

#[test]
fn one_who_says_nothing_or_stops_is_not_waited_for() {
    for said in [&b""[..], b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"] {
        let (address, _) = listener(said.to_vec());
        let mut web = web_at(address);
        web.time = Duration::from_millis(200);
        check(&pictures(web), url(ADDRESS), Err(("image_fetch", "too long")));
    }
    // A look-up that hangs until the test is over.
    let (_keep, hang) = std::sync::mpsc::channel::<()>();
    let hang = std::sync::Mutex::new(hang);
    let mut web = web_at(SocketAddr::from(([127, 0, 0, 1], 1)));
    web.look_up = Arc::new(move |_, _| {
        let _ = hang.lock().map(|it| it.recv());
        Ok(Vec::new())
    });
    web.time = Duration::from_millis(200);
    check(&pictures(web), url(ADDRESS), Err(("image_fetch", "too long")));
}

#[test]
fn nothing_is_fetched_unless_hosts_are_listed() {
    for text in [ADDRESS, "http://169.254.169.254/latest", "http://[::1]/", "file:///etc/passwd", "/etc/passwd", ""] {
        check(&nowhere(), url(text), Err(("images_by_url_off", "not fetched from the web")));
    }
}

#[test]
fn only_listed_hosts_are_asked_and_only_by_http() {
    let (address, reached) = listener(answer("200 OK", &fixture("checkout.png")));
    let web = pictures(web_at(address));
    for text in ["file:///etc/passwd", "ftp://pictures.test/a", "gopher://pictures.test/", "unix:/run/x"] {
        check(&web, url(text), Err(("image_url", "another scheme")));
    }
    check(&web, url("a.png"), Err(("image_url", "none")));
    check(&web, url("http://"), Err(("image_url", "none")));
    check(&web, url("http://user@pictures.test/"), Err(("image_url", "password")));
    check(&web, url("http://:secret@pictures.test/"), Err(("image_url", "password")));
    for host in
        ["other.test", "a.pictures.test", "pictures.test.evil.test", "pictures.test.", "169.254.169.254", "[::1]"]
    {
        check(&web, url(format!("http://{host}/a.png")), Err(("image_host", host)));
    }
    check(&web, url("http://pictures.test:8080/"), Err(("image_host", "pictures.test:8080")));
    check(&web, url("http://pictures.test\\@evil.test/"), Ok(&fixture("checkout.png")));
    check(&web, url("http://evil.test\\@pictures.test/"), Err(("image_host", "evil.test")));
    assert_eq!(reached.load(Ordering::Relaxed), 1);
}

/// Listing a host doesn't make this machine or its network reachable by it, in whatever form its address is written.
#[test]
fn a_host_within_is_not_reached() {
    let (address, reached) = listener(answer("200 OK", &fixture("checkout.png")));
    let port = address.port();
    let inside = [format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("[::ffff:7f00:1]:{port}")];
    let web = pictures(Web::new(&inside).expect("hosts"));
    for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "[0:0::1]", "[::ffff:127.0.0.1]"]
    {
        check(&web, url(format!("http://{host}:{port}/")), Err(("image_address", "public internet")));
    }
    let web = pictures(Web::new(&[format!("localhost:{port}")]).expect("a host"));
    check(&web, url(format!("http://localhost:{port}/")), Err(("image_address", "public internet")));
    assert_eq!(reached.load(Ordering::Relaxed), 0);
}

/// A name server may say one thing to who looks and another to who connects.
#[test]
fn a_host_is_looked_up_once_and_all_its_addresses_count() {
    let (inside, reached) = listener(answer("200 OK", &fixture("checkout.png")));
    let mut web = Web::new(&["pictures.test".to_owned()]).expect("a host");
    web.look_up = Arc::new(move |_, port| Ok(vec![SocketAddr::from(([8, 8, 8, 8], port)), inside]));
    check(&pictures(web), url(ADDRESS), Err(("image_address", "public internet")));

    let (outside, _) = listener(answer("404 Not Found", b""));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let mut web = web_at(outside);
    web.look_up = Arc::new(move |_, _| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(vec![outside]),
        _ => Ok(vec![inside]),
    });
    check(&pictures(web), url(ADDRESS), Err(("image_fetch", "404")));
    assert_eq!((asked.load(Ordering::Relaxed), reached.load(Ordering::Relaxed)), (1, 0));

    let mut web = web_at(outside);
    web.look_up = Arc::new(|_, _| Ok(Vec::new()));
    check(&pictures(web), url(ADDRESS), Err(("image_fetch", "can't be found")));
    let mut web = web_at(outside);
    web.look_up = Arc::new(|_, _| Err(std::io::ErrorKind::NotFound.into()));
    check(&pictures(web), url(ADDRESS), Err(("image_fetch", "can't be found")));
}

#[test]
fn the_pictures_of_a_request_from_the_web_have_a_limit_together() {
    let png = fixture("checkout.png");
    let (address, _) = listener(answer("200 OK", &png));
    let limits = Limits { max_bytes: png.len() as u64, ..LIMITS };
    let web = Pictures::new(limits, web_at(address));
    let all = |count: usize| (0..count).map(|at| Given { param: at.to_string(), source: url(ADDRESS) }).collect();
    assert_eq!(run(web.read(all(4))).expect("as many as fit").len(), 4);
    let bad = run(web.read(all(5))).expect_err("one too many");
    assert_eq!(bad.error.code(), "image_fetch");
}

#[test]
fn a_list_of_hosts_holds_hosts() {
    let is_one = |entry: &str| Web::new(&[entry.to_owned()]).is_ok();
    for entry in ["a.org", "localhost", "a.org:8080", "1.2.3.4", "[2001:db8::1]:80", "xn--bcher-kva.example"] {
        assert!(is_one(entry), "{entry}");
    }
    for entry in
        ["", "*", "*.a.org", "http://a.org", "a.org/", "a.org/x", "u@a.org", "a b", "a.org:x", "a.org:", ":80", "a,b"]
    {
        assert!(!is_one(entry), "{entry}");
    }
}
