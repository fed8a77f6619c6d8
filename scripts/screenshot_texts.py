"""The texts that make_screenshots.py draws: invented programs, invented errors.

TERMINALS and LOGS are lists of texts, EDITORS of (language, first line's number, text), CONSOLES of rows (level, message, source), DIALOGS of parts
(kind, strings), COLUMNS of (title, left column, right column).
"""

TERMINALS = [
    r"""$ python -m harbour.cli import --source fixtures/tides.csv --tz Europe/Oslo
INFO  harbour.loader  reading 4,812 rows from fixtures/tides.csv
INFO  harbour.loader  column 'observed_at' parsed as datetime64[ns]
Traceback (most recent call last):
  File "/usr/lib/python3.11/runpy.py", line 198, in _run_module_as_main
    return _run_code(code, main_globals, None,
  File "/home/ida/harbour/cli.py", line 214, in <module>
    sys.exit(main(sys.argv[1:]))
  File "/home/ida/harbour/cli.py", line 187, in main
    report = importer.run(options.source, timezone=options.tz)
  File "/home/ida/harbour/importer.py", line 93, in run
    for station, frame in self._split_by_station(table):
  File "/home/ida/harbour/importer.py", line 141, in _split_by_station
    levels = frame["level_cm"].interpolate(limit=self.max_gap)
  File "/home/ida/harbour/series.py", line 58, in interpolate
    raise InterpolationError(f"gap of {gap} exceeds limit {limit}")
harbour.errors.InterpolationError: gap of 37 exceeds limit 12

During handling of the above exception, another exception occurred:

  File "/home/ida/harbour/importer.py", line 99, in run
    self._quarantine.append(station_id)
AttributeError: 'NoneType' object has no attribute 'append'
$ echo $?
1""",
    r"""$ ./gradlew :billing:test --tests InvoiceRendererTest
> Task :billing:compileKotlin UP-TO-DATE
> Task :billing:test FAILED

InvoiceRendererTest > rendersDiscountLines() FAILED
    java.lang.IllegalStateException: Discount without a base amount: D-2207
        at com.lumenpay.billing.Discount.applyTo(Discount.java:88)
        at com.lumenpay.billing.InvoiceRenderer.renderLine(InvoiceRenderer.java:142)
        at com.lumenpay.billing.InvoiceRenderer.lambda$render$3(InvoiceRenderer.java:117)
        at java.base/java.util.ArrayList.forEach(ArrayList.java:1596)
        at com.lumenpay.billing.InvoiceRenderer.render(InvoiceRenderer.java:115)
        at com.lumenpay.billing.InvoiceRendererTest.rendersDiscountLines(InvoiceRendererTest.java:61)

        Caused by: java.lang.NullPointerException: Cannot invoke "Money.scale()"
            at com.lumenpay.billing.Money.roundHalfUp(Money.java:203)
            at com.lumenpay.billing.Discount.applyTo(Discount.java:84)
            ... 5 more

14 tests completed, 1 failed, 2 skipped

FAILURE: Build failed with an exception.
* What went wrong:
Execution failed for task ':billing:test'.
BUILD FAILED in 12s""",
    r"""$ RUST_BACKTRACE=1 cargo run --release -- replay captures/night.pcap
    Finished release [optimized] target(s) in 0.08s
     Running target/release/ferrywire replay captures/night.pcap
warning: unused variable: checksum_hint
thread 'decoder-2' panicked at crates/wire/src/frame.rs:277:41:
range end index 1514 out of range for slice of length 1498
stack backtrace:
   0: rust_begin_unwind
   1: core::panicking::panic_fmt
   2: core::slice::index::slice_end_index_len_fail
   3: ferrywire::frame::FrameReader::next_payload
             at ./crates/wire/src/frame.rs:277:41
   4: ferrywire::replay::Session::pump
             at ./crates/wire/src/replay.rs:132:22
   5: ferrywire::replay::run_capture
             at ./crates/wire/src/replay.rs:64:9
   6: ferrywire::main
             at ./src/main.rs:39:5
note: Some details are omitted, run with RUST_BACKTRACE=full for a verbose backtrace.
error: process didn't exit successfully (exit status: 101)""",
    r"""$ go test ./internal/queue -run TestRequeueAfterTimeout -count=1
--- FAIL: TestRequeueAfterTimeout (0.21s)
panic: runtime error: invalid memory address or nil pointer dereference [recovered]
[signal SIGSEGV: segmentation violation code=0x1 addr=0x18 pc=0x6f3a21]

goroutine 34 [running]:
testing.tRunner.func1.2({0x7a1c40, 0xa53b90})
	/usr/local/go/src/testing/testing.go:1631 +0x24a
github.com/quarrylabs/sluice/internal/queue.(*Lease).Extend(0x0, 0x3b9aca00)
	/src/sluice/internal/queue/lease.go:71 +0x41
github.com/quarrylabs/sluice/internal/queue.(*Worker).requeue(0xc0001a4000)
	/src/sluice/internal/queue/worker.go:158 +0x1c5
github.com/quarrylabs/sluice/internal/queue.TestRequeueAfterTimeout(0xc000162340)
	/src/sluice/internal/queue/worker_test.go:96 +0x312
created by testing.(*T).Run in goroutine 1
	/usr/local/go/src/testing/testing.go:1742 +0x390
FAIL	github.com/quarrylabs/sluice/internal/queue	0.238s
FAIL
$ git log --oneline -3
7be01d4 queue: extend leases while a handler runs
c93f5aa queue: drop the global mutex
1d20e6f docs: explain back-off""",
    r"""$ npm run build -- --mode production
> paperkite@3.14.0 build
> tsc -p tsconfig.build.json && vite build --mode production

src/canvas/TileCache.ts:48:19 - error TS2345: Argument of type 'string | undefined' is not
  assignable to parameter of type 'TileKey'.

48     this.evict(oldest.value);
                  ~~~~~~~~~~~~

src/hooks/useViewport.ts:112:7 - error TS2322: Type 'DOMRect | null' is not assignable.

Found 2 errors in 2 files.

node:internal/process/promises:394
      triggerUncaughtException(err, true /* fromPromise */);
      ^

TypeError: Cannot read properties of undefined (reading 'resolveTile')
    at LayerStack.paint (/app/dist/canvas/LayerStack.js:210:31)
    at async Renderer.flush (/app/dist/canvas/Renderer.js:77:5)
    at async /app/dist/server.js:31:3

Node.js v22.11.0""",
    r"""$ bundle exec rspec spec/mailer/digest_spec.rb
F..*

Failures:

  1) Postbox::Digest groups threads by sender
     Failure/Error: threads.fetch(sender).sort_by(&:received_at)

     KeyError:
       key not found: "noreply@example.org"
     # ./lib/postbox/digest.rb:54:in 'fetch'
     # ./lib/postbox/digest.rb:54:in 'block in grouped_threads'
     # ./lib/postbox/digest.rb:49:in 'each_with_object'
     # ./spec/mailer/digest_spec.rb:22:in 'block (3 levels) in <top (required)>'

Finished in 0.41982 seconds (files took 1.73 seconds to load)
4 examples, 1 failure, 1 pending

Failed examples:

rspec ./spec/mailer/digest_spec.rb:18 # Postbox::Digest groups threads by sender""",
]

EDITORS = [
    (
        "python",
        128,
        '''class SpanIndex:
    """Finds the spans that cover an offset."""

    def __init__(self, spans, *, strict=False):
        self._starts = [span.start for span in spans]
        self._spans = sorted(spans, key=lambda it: (it.start, -it.end))
        self._strict = strict

    def covering(self, offset: int) -> list[Span]:
        # Binary search first, then walk back over the parents.
        position = bisect_right(self._starts, offset) - 1
        found = []
        while position >= 0 and len(found) < MAX_DEPTH:
            span = self._spans[position]
            if span.start <= offset < span.end:
                found.append(span)
            elif self._strict and span.depth == 0:
                break
            position -= 1
        return found[::-1]

    @classmethod
    def from_tokens(cls, tokens, source_path="<unknown>"):
        if not tokens:
            raise ValueError(f"no tokens in {source_path}")
        return cls([Span(t.begin, t.finish, t.kind) for t in tokens])''',
    ),
    (
        "rust",
        41,
        """impl<'a> ChunkReader<'a> {
    /// Reads the header of the next chunk.
    pub fn next_header(&mut self) -> Result<ChunkHeader, ReadError> {
        let bytes = self.take(HEADER_LEN)?;
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if length as usize > self.limits.max_chunk {
            return Err(ReadError::TooLong { length, at: self.offset });
        }
        match bytes[4] {
            0x01 => Ok(ChunkHeader::Data { length }),
            0x02 => Ok(ChunkHeader::Index { length, entries: bytes[5] }),
            other => Err(ReadError::UnknownKind(other)),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ReadError> {
        let end = self.offset.checked_add(count).ok_or(ReadError::Overflow)?;
        let slice = self.data.get(self.offset..end).ok_or(ReadError::Truncated)?;
        self.offset = end;
        Ok(slice)
    }
}""",
    ),
    (
        "typescript",
        7,
        """import { createStore, type Listener } from "../state/createStore";
import { debounce } from "./debounce";

export interface PanelLayout {
  readonly id: string;
  width: number;
  collapsed?: boolean;
}

const DEFAULT_WIDTH = 320;

export function usePanelLayout(storageKey: string): PanelLayout[] {
  const saved = window.localStorage.getItem(storageKey);
  const panels: PanelLayout[] = saved ? JSON.parse(saved) : [];
  // Older versions stored widths as strings.
  for (const panel of panels) {
    panel.width = Number(panel.width) || DEFAULT_WIDTH;
  }
  return panels.filter((panel) => !panel.collapsed);
}

export const persistLayout = debounce((key: string, panels: PanelLayout[]) => {
  window.localStorage.setItem(key, JSON.stringify(panels));
  layoutStore.notify({ type: "layout/saved", count: panels.length });
}, 250);""",
    ),
    (
        "go",
        203,
        """// Acquire blocks until a connection is free or ctx is done.
func (p *Pool) Acquire(ctx context.Context) (*Conn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		conn := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return conn, nil
	}
	waiter := make(chan *Conn, 1)
	p.waiters.PushBack(waiter)
	p.mu.Unlock()

	select {
	case conn := <-waiter:
		if conn == nil {
			return nil, ErrPoolClosed
		}
		return conn, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("acquire: %w", ctx.Err())
	}
}""",
    ),
    (
        "kotlin",
        15,
        """@Composable
fun ReminderList(
    reminders: List<Reminder>,
    onToggle: (ReminderId) -> Unit,
    modifier: Modifier = Modifier,
) {
    val expanded = remember { mutableStateOf<ReminderId?>(null) }
    LazyColumn(modifier.fillMaxWidth().padding(horizontal = 16.dp)) {
        items(reminders, key = { it.id.value }) { reminder ->
            ReminderRow(
                title = reminder.title.ifBlank { "Untitled" },
                dueAt = reminder.dueAt?.let(dateFormatter::format),
                checked = reminder.isDone,
                onClick = { onToggle(reminder.id) },
            )
            // TODO: animate the divider once swipe-to-delete lands
            if (expanded.value == reminder.id) HorizontalDivider()
        }
    }
}""",
    ),
]

CONSOLES = [
    [
        ("info", "[vite] connected.", "client:495"),
        ("log", "Session restored for user 4471 (2 workspaces)", "session.ts:88"),
        ("warn", "Deprecated: passing a string to createTheme() will be removed in v6", "createTheme.js:24"),
        ("error", "Uncaught TypeError: Cannot read properties of null (reading 'getBoundingClientRect')", "Tooltip.tsx:61"),
        ("stack", "at positionTooltip (Tooltip.tsx:61:28)", ""),
        ("stack", "at useLayoutEffect (Tooltip.tsx:112:5)", ""),
        ("stack", "at commitHookEffectListMount (react-dom.development.js:23189:26)", ""),
        ("stack", "at flushPassiveEffects (react-dom.development.js:27038:14)", ""),
        ("error", "The above error occurred in the <Tooltip> component", "react-dom.development.js:18704"),
        ("log", "fetch /api/v2/boards?limit=50 took 1843 ms", "http.ts:132"),
        ("error", "GET http://localhost:8080/api/v2/boards/undefined 404 (Not Found)", "http.ts:119"),
    ],
    [
        ("log", "Registering service worker with scope /maps/", "sw-register.js:14"),
        ("warn", "Canvas2D: Multiple readback operations using getImageData are faster", "heatmap.js:207"),
        ("error", "Uncaught (in promise) RangeError: Invalid array length", "quadtree.js:93"),
        ("stack", "at QuadTree.subdivide (quadtree.js:93:17)", ""),
        ("stack", "at QuadTree.insert (quadtree.js:58:12)", ""),
        ("stack", "at Array.forEach (<anonymous>)", ""),
        ("stack", "at buildIndex (worker-bridge.js:41:10)", ""),
        ("error", "Failed to load resource: the server responded with a status of 503", "tiles.pbf:1"),
        ("warn", "WebGL: CONTEXT_LOST_WEBGL: loseContext: context lost", "renderer.js:310"),
        ("info", "Falling back to the software rasterizer", "renderer.js:322"),
    ],
    [
        ("log", "Angular is running in development mode.", "core.mjs:26673"),
        ("error", "ERROR Error: NG0100: ExpressionChangedAfterItHasBeenCheckedError", "main.ts:12"),
        ("stack", "at CartSummaryComponent_Template (cart-summary.component.html:17:9)", ""),
        ("stack", "at refreshView (core.mjs:13562:13)", ""),
        ("stack", "at detectChangesInternal (core.mjs:14802:5)", ""),
        ("warn", "cart.totalPrice changed from 129.90 to 116.91", "cart.service.ts:76"),
        ("log", "coupon SPRING24 applied, discount=0.1", "coupon.effects.ts:33"),
        ("error", "POST https://shop.example.com/checkout/confirm 422 (Unprocessable Content)", "zone.js:2680"),
        ("info", "retrying in 3000 ms (attempt 2 of 5)", "retry.interceptor.ts:45"),
    ],
    [
        ("error", "Access to fetch at 'https://cdn.example.net/fonts.json' has been blocked by CORS policy", "index.html:1"),
        ("error", "Uncaught SyntaxError: Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON", "fontLoader.js:38"),
        ("stack", "at JSON.parse (<anonymous>)", ""),
        ("stack", "at parseManifest (fontLoader.js:38:22)", ""),
        ("stack", "at async FontPicker.mounted (FontPicker.vue:74:20)", ""),
        ("warn", "[Vue warn]: Missing required prop: \"modelValue\"", "runtime-core.js:4361"),
        ("log", "{family: 'Inter', weights: Array(9), italic: true}", "FontPicker.vue:81"),
        ("log", "selected weight 600, fallback sans-serif", "FontPicker.vue:97"),
        ("warn", "Slow network is detected. Fallback font will be used while loading", "fonts.css:12"),
    ],
]

LOGS = [
    """2031-03-14 08:21:07.114  INFO 1 --- [nio-8443-exec-3] c.o.gateway.RouteRegistry : Loaded 42 routes from routes.yml
2031-03-14 08:21:07.902  INFO 1 --- [nio-8443-exec-3] c.o.gateway.TokenFilter   : issuer=https://id.example.com/realms/ops
2031-03-14 08:21:09.337  WARN 1 --- [ scheduling-1]  c.o.gateway.HealthProbe   : upstream 'inventory' answered in 2904 ms
2031-03-14 08:21:11.420 ERROR 1 --- [nio-8443-exec-7] c.o.gateway.RetryHandler  : giving up after 3 attempts
java.util.concurrent.TimeoutException: no response within 5000 ms
	at com.ombra.gateway.RetryHandler.await(RetryHandler.java:119)
	at com.ombra.gateway.RetryHandler.execute(RetryHandler.java:74)
	at com.ombra.gateway.ProxyServlet.doGet(ProxyServlet.java:208)
	at jakarta.servlet.http.HttpServlet.service(HttpServlet.java:527)
	... 31 common frames omitted
2031-03-14 08:21:11.431  INFO 1 --- [nio-8443-exec-7] c.o.gateway.CircuitBreaker: state CLOSED -> OPEN for inventory
2031-03-14 08:21:16.008  INFO 1 --- [ scheduling-1]  c.o.gateway.CircuitBreaker: state OPEN -> HALF_OPEN for inventory
2031-03-14 08:21:16.745 ERROR 1 --- [nio-8443-exec-2] c.o.gateway.ErrorPage     : template error-503.html not found""",
    """Mar 02 23:59:58 relay-04 systemd[1]: Started Spool Forwarder.
Mar 02 23:59:59 relay-04 spoold[2218]: listening on 0.0.0.0:5514 (udp), 0.0.0.0:6514 (tls)
Mar 03 00:00:00 relay-04 spoold[2218]: rotating /var/spool/relay/queue.0007 (67,108,864 bytes)
Mar 03 00:00:01 relay-04 spoold[2218]: warning: rename failed: Device or resource busy
Mar 03 00:00:01 relay-04 spoold[2218]: segment.c:342: segment_close: assertion `seg->refcount == 0' failed
Mar 03 00:00:01 relay-04 kernel: spoold[2218]: segfault at 0 ip 00007f31c2a4e0d1 sp 00007ffd0c1b2e40 error 4
Mar 03 00:00:02 relay-04 systemd[1]: spoold.service: Main process exited, code=dumped, status=6/ABRT
Mar 03 00:00:02 relay-04 systemd[1]: spoold.service: Failed with result 'core-dump'.
Mar 03 00:00:07 relay-04 systemd[1]: spoold.service: Scheduled restart job, restart counter is at 5.
Mar 03 00:00:08 relay-04 spoold[2291]: recovered 1,204 records from queue.0007, 3 discarded
Mar 03 00:00:08 relay-04 spoold[2291]: config: unknown key 'max_inflght' in /etc/spoold.conf line 19""",
    """[12:04:31] INF Now listening on: http://[::]:5080
[12:04:31] INF Hosting environment: Staging
[12:05:02] DBG Executing endpoint 'Ledger.Api.StatementsController.Export'
[12:05:03] ERR An unhandled exception has occurred while executing the request
System.InvalidOperationException: Sequence contains more than one element
   at System.Linq.ThrowHelper.ThrowMoreThanOneElementException()
   at Ledger.Core.StatementBuilder.FindAccount(String iban) in /src/Ledger.Core/StatementBuilder.cs:line 77
   at Ledger.Core.StatementBuilder.BuildAsync(ExportRequest request) in /src/Ledger.Core/StatementBuilder.cs:line 41
   at Ledger.Api.StatementsController.Export(ExportRequest request) in /src/Ledger.Api/StatementsController.cs:line 58
[12:05:03] INF HTTP POST /statements/export responded 500 in 318.6042 ms
[12:05:11] WRN Cache entry statements:2030Q4 is 14 days old
[12:05:40] INF HTTP GET /healthz responded 200 in 0.7118 ms""",
    """2031/01/19 16:40:12 [error] 77#77: *1893 FastCGI sent in stderr: "PHP message: PHP Fatal error:
Uncaught TypeError: Orchard\\Cart\\Totals::add(): Argument #1 ($amount) must be of type int, string given,
called in /var/www/orchard/src/Cart/Basket.php on line 133 and defined in /var/www/orchard/src/Cart/Totals.php:46
Stack trace:
#0 /var/www/orchard/src/Cart/Basket.php(133): Orchard\\Cart\\Totals->add('12.50')
#1 /var/www/orchard/src/Cart/Basket.php(98): Orchard\\Cart\\Basket->recalculate()
#2 /var/www/orchard/src/Http/CartController.php(61): Orchard\\Cart\\Basket->addItem(Object(Orchard\\Cart\\Item))
#3 /var/www/orchard/vendor/slim/Handlers.php(43): Orchard\\Http\\CartController->update()
#4 {main}
  thrown in /var/www/orchard/src/Cart/Totals.php on line 46" while reading response header from upstream
2031/01/19 16:40:12 [warn] 77#77: *1893 upstream buffered to temporary file /var/cache/fcgi/3/02/0000000023
10.0.3.18 - - [19/Jan/2031:16:40:12 +0000] "POST /cart/items HTTP/1.1" 500 574 "-" "Mozilla/5.0\"""",
]

# Parts from top to bottom: title, menu, text, label and value, tabs, check boxes, buttons, status line.
DIALOGS = [
    [
        ("title", ["Synchronise Library - Folio"]),
        ("menu", ["File", "Edit", "View", "Library", "Help"]),
        ("heading", ["Some items could not be synchronised"]),
        ("text", ["The server rejected 3 of 218 items because their metadata is incomplete."]),
        ("text", ["Error code: SYNC_CONFLICT (0x80070490)"]),
        ("field", ["Server:", "https://folio.example.org/sync"]),
        ("field", ["Last successful run:", "14 March 2031, 08:12"]),
        ("check", ["Skip items with missing authors"]),
        ("check", ["Show this message again"]),
        ("buttons", ["Retry", "Show Details", "Cancel"]),
    ],
    [
        ("title", ["Preferences"]),
        ("menu", ["General", "Editor", "Key Bindings", "Network", "Advanced"]),
        ("field", ["Tab width:", "4 spaces"]),
        ("field", ["Line endings:", "Unix (LF)"]),
        ("field", ["Default encoding:", "UTF-8 without BOM"]),
        ("field", ["Proxy address:", "proxy.internal:3128"]),
        ("check", ["Remove trailing white space when saving"]),
        ("check", ["Highlight the current line"]),
        ("check", ["Open the last project at start"]),
        ("text", ["Changes take effect after the program is restarted."]),
        ("buttons", ["Restore Defaults", "Apply", "OK", "Cancel"]),
    ],
    [
        ("title", ["Brightwell Studio has stopped working"]),
        ("heading", ["Unhandled exception in component timeline.dll"]),
        ("text", ["System.ObjectDisposedException: Cannot access a disposed object."]),
        ("text", ["Object name: 'WaveformView'."]),
        ("text", ["at Brightwell.Timeline.WaveformView.OnPaint(PaintEventArgs e)"]),
        ("text", ["at System.Windows.Forms.Control.PaintWithErrorHandling(PaintEventArgs e)"]),
        ("text", ["at System.Windows.Forms.Control.WmPaint(Message& m)"]),
        ("text", ["If you click Continue, the application will ignore this error."]),
        ("buttons", ["Details", "Continue", "Quit"]),
    ],
    [
        ("title", ["New Connection"]),
        ("menu", ["Settings", "SSH Tunnel", "TLS", "Options"]),
        ("field", ["Host name:", "db-replica-2.example.com"]),
        ("field", ["Port:", "5432"]),
        ("field", ["Database:", "warehouse_eu"]),
        ("field", ["User:", "readonly_app"]),
        ("check", ["Store password in the system key ring"]),
        ("heading", ["Connection failed"]),
        ("text", ["FATAL: no pg_hba.conf entry for host \"10.4.0.9\", user \"readonly_app\", no encryption"]),
        ("text", ["Check the server's access rules or enable TLS, then test the connection again."]),
        ("buttons", ["Test Connection", "Save", "Cancel"]),
    ],
    [
        ("title", ["Export Drawing"]),
        ("heading", ["Choose what to export"]),
        ("field", ["Format:", "Scalable Vector Graphics (*.svg)"]),
        ("field", ["Resolution:", "300 dpi"]),
        ("field", ["Colour profile:", "sRGB IEC61966-2.1"]),
        ("check", ["Embed fonts as outlines"]),
        ("check", ["Include hidden layers"]),
        ("text", ["Layer 'Annotations' uses a blend mode that this format does not support."]),
        ("text", ["It will be drawn as Normal instead."]),
        ("buttons", ["Preview", "Export", "Close"]),
    ],
]

COLUMNS = [
    (
        "Tuning the ingest service",
        """Batches are written as soon as they
hold 512 records or are two seconds
old. A batch that fails is retried
with exponential back-off, at most
five times, and is then parked in
the dead letter folder. Operators
can replay parked batches with the
ingestctl command, which prints how
many records were accepted.

Memory use grows with the number
of open partitions. When a topic
has more than 64 of them, lower
batch_bytes rather than the number
of workers, since idle workers cost
almost nothing.""",
        """Reading the metrics page needs
some care. The lag shown for a
partition is the age of its oldest
record, not the count of waiting
ones. A partition without traffic
reports zero even if its consumer
has crashed, so always compare it
with the heartbeat column.

Compression is on by default. It
costs about nine percent of one
core at 20 MB/s and saves two
thirds of the disk. Turn it off
for images and archives, which do
not shrink any further.""",
    ),
    (
        "Release notes for version 4.2",
        """The search panel keeps its history
between sessions. Press the arrow
keys to walk through it, or type a
prefix to narrow the list. Entries
older than ninety days are removed
when the program starts.

Exports no longer lose the time
zone of recurring events. Files
written by earlier versions are
repaired while they are imported,
and a note in the log names each
event that was changed.""",
        """Known problems: on displays with
fractional scaling the preview may
be blurred until the window has
been resized once. Dragging tabs
between windows is not possible
under some tiling managers.

Plugins built for version 3 must
be compiled again. The function
register_filter now takes a second
argument with the filter's options
and returns an opaque handle that
must be released.""",
    ),
]
