//! A trace of each language, whole and damaged.

use super::check;

#[test]
fn python() {
    check(
        "Traceback (most recent call last):
  File \"/app/run.py\", line 8, in <module>
    main()
  File \"/app/shop/cart.py\", line 112, in total_price
    return sum(it.price for it in items)
TypeError: 'NoneType' object is not iterable",
        "exception|TypeError|'NoneType' object is not iterable",
        &["total_price /app/shop/cart.py 112", "- /app/run.py 8"],
    );
    check(
        "Traceback(most recent call last):
File“/app/run.py”,line 8,in <module>
main()
File\"/app/shop/cart.py\"，line ll2,in total_price
return sum(it.price for it in items)
TypeErr0r：’NoneType’ object is not iterable",
        "exception|TypeError|'NoneType' object is not iterable",
        &["total_price /app/shop/cart.py 112", "- /app/run.py 8"],
    );
}

#[test]
fn python_raised_while_handling() {
    check(
        "Traceback (most recent call last):
  File \"a.py\", line 1, in first
KeyError: 'name'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File \"b.py\", line 2, in second
shop.errors.CartError: no such item",
        "exception|shop.errors.CartError|no such item",
        &["second b.py 2", "first a.py 1"],
    );
}

#[test]
fn python_notebooks_and_tests() {
    check(
        "File ~/proj/model.py:40, in Model.fit(self, x)
     39 def fit(self, x):
---> 40     return self.solver.solve(x)
ValueError: Input contains NaN",
        "exception|ValueError|Input contains NaN",
        &["Model.fit ~/proj/model.py 40"],
    );
    check(
        "tests/test_cart.py:33: in test_total
    assert cart.total() == 12
E   assert 10 == 12
tests/test_cart.py:33: AssertionError",
        "assertion||assert 10 == 12",
        &["test_total tests/test_cart.py 33", "- tests/test_cart.py 33"],
    );
}

#[test]
fn a_frame_broken_at_the_right_edge() {
    check(
        "Traceback (most recent call last):
  File \"/home/user/projects/warehouse/services/inven
tory/counting.py\", line 57, in recount_all
    x = 1
RuntimeError: failed",
        "exception|RuntimeError|failed",
        &["recount_all /home/user/projects/warehouse/services/inventory/counting.py 57"],
    );
    check(
        "TypeError: cart is undefined
    at Cart.addItem (/home/user/projects/warehouse/fro
ntend/src/cart/index.ts:12:5)
    at main (/srv/main.ts:1:2)",
        "exception|TypeError|cart is undefined",
        &["Cart.addItem /home/user/projects/warehouse/frontend/src/cart/index.ts 12", "main /srv/main.ts 1"],
    );
}

#[test]
fn javascript_v8() {
    check(
        "Uncaught TypeError: Cannot read properties of undefined (reading 'map')
    at ItemList (webpack-internal:///./src/components/ItemList.jsx?12ab:33:18)
    at async Promise.all (index 0)
    at new Store (webpack://shop/./src/store.js:9:3)
    at Object.<anonymous> (/app/test/store.test.js:4:1)
    at /app/node_modules/koa/lib/app.js:20:7
    at http://localhost:3000/static/js/bundle.js:1234:56",
        "exception|TypeError|Cannot read properties of undefined (reading 'map')",
        &[
            "ItemList webpack-internal:///./src/components/ItemList.jsx 33",
            "Store webpack://shop/./src/store.js 9",
            "- /app/test/store.test.js 4",
            "- /app/node_modules/koa/lib/app.js 20",
            "- http://localhost:3000/static/js/bundle.js 1234",
        ],
    );
    check(
        "Uncaught TypeErr0r：Cannot read properties of undefined(reading ’map’)
atItemList(webpack-internal:///./src/components/ItemList.jsx:33:l8)
at renderWithHooks (react-dom.development.js: l6305:18)
at next (webpack-internal:///(app-pages-browser)/./src/app/page.tsx:10:5)",
        "exception|TypeError|Cannot read properties of undefined(reading 'map')",
        &[
            "ItemList webpack-internal:///./src/components/ItemList.jsx 33",
            "renderWithHooks react-dom.development.js 16305",
            "next webpack-internal:///(app-pages-browser)/./src/app/page.tsx 10",
        ],
    );
}

#[test]
fn javascript_of_overlays_and_terminals() {
    check(
        "Unhandled Runtime Error
Error: Hydration failed
Call Stack
renderItem
src/components/List.tsx (94:10)",
        "exception|Error|Hydration failed",
        &["renderItem src/components/List.tsx 94"],
    );
    check(
        "/app/src/index.js:12
    start(config);
    ^
ReferenceError: start is not defined
    at Object.<anonymous> (/app/src/index.js:12:5)
    at node:internal/main/run_main_module:17:47",
        "exception|ReferenceError|start is not defined",
        &["- /app/src/index.js 12", "- node:internal/main/run_main_module 17"],
    );
    check(
        "ERROR Error: Uncaught (in promise): TypeError: Cannot read properties of null
    at CartComponent.ngOnInit (cart.component.ts:21:9)",
        "exception|TypeError|Cannot read properties of null",
        &["CartComponent.ngOnInit cart.component.ts 21"],
    );
}

#[test]
fn javascript_of_other_browsers() {
    check(
        "TypeError: can't access property \"id\", row is null
renderRow@https://example.org/js/table.js:40:12
render/<@https://example.org/js/table.js:22:5
@http://localhost:8080/main.js:3:1",
        "exception|TypeError|can't access property \"id\", row is null",
        &[
            "renderRow https://example.org/js/table.js 40",
            "render/< https://example.org/js/table.js 22",
            "- http://localhost:8080/main.js 3",
        ],
    );
    check(
        "Uncaught ReferenceError: foo is not defined   app.js:12
setup @ app.js:12
(anonymous) @ app.js:40",
        "exception|ReferenceError|foo is not defined",
        &["- app.js 12", "setup app.js 12", "- app.js 40"],
    );
    check(
        "Uncaught Error: Invariant failed
in Toolbar (at App.js:12)
in App (at src/index.js:7)",
        "exception|Error|Invariant failed",
        &["Toolbar App.js 12", "App src/index.js 7"],
    );
}

#[test]
fn java_and_its_causes() {
    check(
        "Exception in thread \"main\" java.lang.IllegalStateException: not ready
    at com.acme.shop.Cart.total(Cart.java:32)
    at java.base/java.lang.reflect.Method.invoke(Native Method)
Caused by: java.lang.NullPointerException: item is null
    at com.acme.shop.Item$Price.of(Item.java:9)
    at com.acme.shop.Main.main(Main.kt:5)
    ... 2 more",
        "exception|java.lang.NullPointerException|item is null",
        &[
            "com.acme.shop.Item$Price.of Item.java 9",
            "com.acme.shop.Main.main Main.kt 5",
            "com.acme.shop.Cart.total Cart.java 32",
            "java.base/java.lang.reflect.Method.invoke - -",
        ],
    );
    check(
        "java.lang.Nul1PointerExcepti0n
atcom.acme.shop.Cart.total(Cart.java：32)
at com.acme.shop.App$.main(App.scala: l7)",
        "exception|java.lang.Nul1PointerException|",
        &["com.acme.shop.Cart.total Cart.java 32", "com.acme.shop.App$.main App.scala 17"],
    );
}

#[test]
fn go() {
    check(
        "panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.(*Server).handle(0xc000010250, {0x1, 0x2})
\t/app/server/handle.go:41 +0x1d
example.org/shop/cart.Total(...)
\t/app/cart/total.go:12 +0x65
created by main.main in goroutine 1
\t/app/main.go:9 +0x2f",
        "panic||runtime error: index out of range [5] with length 3",
        &[
            "main.(*Server).handle /app/server/handle.go 41",
            "example.org/shop/cart.Total /app/cart/total.go 12",
            "main.main /app/main.go 9",
        ],
    );
    check(
        "panic: assignment to entry in nil map
main.(*Server).handle(0xc000010250,{0x1,0x2})
/app/server/handle.go:4l +0xld
main.main()
/app/main.go:9 +Ox2f",
        "panic||assignment to entry in nil map",
        &["main.(*Server).handle /app/server/handle.go 41", "main.main /app/main.go 9"],
    );
}

#[test]
fn rust() {
    check(
        "thread 'main' panicked at src/cart.rs:14:9:
called `Option::unwrap()` on a `None` value
stack backtrace:
   0: rust_begin_unwind
             at /rustc/abc/library/std/src/panicking.rs:645:5
   1: shop::cart::Cart::total
             at ./src/cart.rs:14:9
   2: shop::main
             at ./src/main.rs:6:5",
        "panic||called 'Option::unwrap()' on a 'None' value",
        &[
            "- src/cart.rs 14",
            "rust_begin_unwind /rustc/abc/library/std/src/panicking.rs 645",
            "shop::cart::Cart::total ./src/cart.rs 14",
            "shop::main ./src/main.rs 6",
        ],
    );
    check(
        "error[E0308]: mismatched types
  --> src/cart.rs:20:5
   |
20 |     total
   |     ^^^^^ expected `u32`, found `u64`",
        "compile_error|E0308|mismatched types",
        &["- src/cart.rs 20"],
    );
    check(
        "thread’main’panicked at’index out of bounds: the len is 3’, src/cart.rs:l4:9",
        "panic||index out of bounds: the len is 3",
        &["- src/cart.rs 14"],
    );
}

#[test]
fn c_and_its_tools() {
    check(
        "Program received signal SIGSEGV, Segmentation fault.
#0  0x00005555555551c9 in list_push (list=0x0, value=3) at src/list.c:27
#1  0x0000555555555260 in shop::Cart::add<int> (this=0x0) at src/cart.cpp:9
#2  main () at src/main.c:5
#3  0x00007ffff7df0083 in __libc_start_main () from /lib/libc.so.6",
        "signal|SIGSEGV|Segmentation fault.",
        &[
            "list_push src/list.c 27",
            "shop::Cart::add<int> src/cart.cpp 9",
            "main src/main.c 5",
            "__libc_start_main - -",
        ],
    );
    check(
        "==77==ERR0R: AddressSanitizer: heap-use-after-free on address 0x602
    #0 0x4f8a in list_push(List*, int) /src/list.cc:27:5
    #1 0x4f9b in main /src/main.cc:5:3",
        "sanitizer|heap-use-after-free|on address 0x602",
        &["list_push /src/list.cc 27", "main /src/main.cc 5"],
    );
    check(
        "src/list.c:27:5: error: use of undeclared identifier 'lst'
src/list.c:30:1: warning: control reaches end",
        "compile_error||use of undeclared identifier 'lst'",
        &["- src/list.c 27", "- src/list.c 30"],
    );
    check("app: list.c:12: push: Assertion `list != 0' failed.", "assertion||list != 0", &["- list.c 12"]);
    check(
        "terminate called after throwing an instance of 'std::out_of_range'
  what():  vector::_M_range_check",
        "exception|std::out_of_range|what():  vector::_M_range_check",
        &[],
    );
}

#[test]
fn dotnet_and_powershell() {
    check(
        "Unhandled exception. System.NullReferenceException: Object reference not set to an instance of an object.
   at Shop.Cart.Total(List`1 items) in C:\\work\\Shop\\Cart.cs:line 21
   at Shop.Program.Main(String[] args)",
        "exception|System.NullReferenceException|Object reference not set to an instance of an object.",
        &["Shop.Cart.Total C:\\work\\Shop\\Cart.cs 21", "Shop.Program.Main - -"],
    );
    check(
        "Unhandled exception.System.NullReferenceException：Object reference not set
at Shop.Cart.Total(List’1 items)in C:\\work\\Shop\\Cart.cs：line 2l",
        "exception|System.NullReferenceException|Object reference not set",
        &["Shop.Cart.Total C:\\work\\Shop\\Cart.cs 21"],
    );
    check(
        "Get-Item : Cannot find path 'C:\\x' because it does not exist.
At C:\\work\\deploy.ps1:12 char:5
+     Get-Item x
    + FullyQualifiedErrorId : PathNotFound,Microsoft.PowerShell.Commands.GetItemCommand",
        "exception|PathNotFound|",
        &["- C:\\work\\deploy.ps1 12"],
    );
}

#[test]
fn php() {
    check(
        "PHP Fatal error:  Uncaught TypeError: Cart::add(): Argument #1 must be of type int in /var/www/src/Cart.php:31
Stack trace:
#0 /var/www/src/Shop.php(12): App\\Cart->add('x')
#1 {main}
  thrown in /var/www/src/Cart.php on line 31",
        "exception|TypeError|Cart::add(): Argument #1 must be of type int in /var/www/src/Cart.php:31",
        &["- /var/www/src/Cart.php 31", "App\\Cart->add /var/www/src/Shop.php 12"],
    );
    check(
        "#0/var/www/src/Shop.php(12):App\\Cart->add('x')",
        "exception||",
        &["App\\Cart->add /var/www/src/Shop.php 12"],
    );
    check(
        "Warning: Undefined variable $total in /var/www/src/Cart.php on line 31",
        "exception||Undefined variable $total",
        &["- /var/www/src/Cart.php 31"],
    );
}

#[test]
fn ruby() {
    check(
        "lib/cart.rb:14:in `total': undefined method `price' for nil:NilClass (NoMethodError)
\tfrom lib/cart.rb:9:in `block in each_item'
\tfrom bin/shop:3:in `<main>'",
        "exception|NoMethodError|undefined method 'price' for nil:NilClass",
        &["total lib/cart.rb 14", "each_item lib/cart.rb 9", "- bin/shop 3"],
    );
    check(
        "lib/cart.rb:l4:in’Cart#total’：undefined method’price’for nil (NoMethodError)
from lib/cart.rb:9:in’block in each_item’
from bin/shop:3:in<main>",
        "exception|NoMethodError|undefined method'price'for nil",
        &["Cart#total lib/cart.rb 14", "each_item lib/cart.rb 9", "- bin/shop 3"],
    );
}

#[test]
fn swift_and_dart() {
    check(
        "Fatal error: Index out of range: file Shop/Cart.swift, line 18",
        "exception||Index out of range: file Shop/Cart.swift, line 18",
        &["- Shop/Cart.swift 18"],
    );
    check(
        "Thread 1: Fatal error: Unexpectedly found nil
frame #0: 0x0000000100003f50 Shop`Cart.total(self=0x0) at Cart.swift:18:9
#1 0x000000010 in Cart.add() at /proj/Shop/Cart.swift:7",
        "exception||Unexpectedly found nil",
        &["Cart.total Cart.swift 18", "Cart.add /proj/Shop/Cart.swift 7"],
    );
    check(
        "Unhandled exception:
FormatException: Unexpected character
#0      Cart.total (package:shop/src/cart.dart:12:5)
#1      main.<anonymous closure> (file:///proj/bin/main.dart:3:1)",
        "exception|FormatException|Unexpected character",
        &["Cart.total package:shop/src/cart.dart 12", "main file:///proj/bin/main.dart 3"],
    );
    check(
        "The following assertion was thrown building CartView(dirty):
No Material widget found.
package:flutter/src/material/debug.dart 32:7  debugCheckHasMaterial",
        "exception|assertion|building CartView(dirty):",
        &["debugCheckHasMaterial package:flutter/src/material/debug.dart 32"],
    );
}

#[test]
fn elixir_and_lua() {
    check(
        "** (FunctionClauseError) no function clause matching in Shop.Cart.total/1
    (shop 0.1.0) lib/shop/cart.ex:12: Shop.Cart.total/1
    (elixir 1.15.0) lib/enum.ex:1658: Enum.map/2",
        "exception|FunctionClauseError|no function clause matching in Shop.Cart.total/1",
        &["Shop.Cart.total lib/shop/cart.ex 12", "Enum.map lib/enum.ex 1658"],
    );
    check("★  (KeyErr0r) key :id not found", "exception|KeyError|key :id not found", &[]);
    check(
        "lua: cart.lua:12: attempt to index a nil value (local 'item')
stack traceback:
\tcart.lua:12: in function 'total'
\tmain.lua:3: in main chunk",
        "exception||attempt to index a nil value (local 'item')",
        &["- cart.lua 12", "total cart.lua 12", "- main.lua 3"],
    );
}

#[test]
fn compilers_and_linters() {
    check(
        "src/cart.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'.",
        "compile_error|TS2322|Type 'string' is not assignable to type 'number'.",
        &["- src/cart.ts 12"],
    );
    check(
        "ERROR in ./src/cart.ts 12:5-9
Module not found: Error: Can't resolve './item' in '/app/src'",
        "compile_error||Module not found: Error: Can't resolve './item' in '/app/src'",
        &["- ./src/cart.ts 12"],
    );
    check(
        "Cart.cs(21,9): error CS0103: The name 'x' does not exist",
        "compile_error|CS0103|The name 'x' does not exist",
        &["- Cart.cs 21"],
    );
    check(
        "e: /proj/Cart.kt: (12, 5): Unresolved reference: item",
        "compile_error||Unresolved reference: item",
        &["- /proj/Cart.kt 12"],
    );
    check(
        "[ERROR] /proj/Cart.java:[12,5] cannot find symbol",
        "log||/proj/Cart.java:[12,5] cannot find symbol",
        &["- /proj/Cart.java 12"],
    );
    check(
        "cart.py:12: error: Incompatible return value type",
        "compile_error||Incompatible return value type",
        &["- cart.py 12"],
    );
    check("  12:5  error  'x' is not defined  no-undef", "lint|no-undef|'x' is not defined", &[]);
}

#[test]
fn failed_tests() {
    check(
        "expect(received).toBe(expected) // Object.is equality
Expected: 3
Received: 4
    at Object.<anonymous> (src/cart.test.ts:9:20)",
        "assertion||expect(received).toBe(expected) // Object.is equality Expected: 3 Received: 4",
        &["- src/cart.test.ts 9"],
    );
    check(
        "org.opentest4j.AssertionFailedError: expected: <3> but was: <4>
    at shop.CartTest.total(CartTest.java:17)",
        "assertion|org.opentest4j.AssertionFailedError|expected: <3> but was: <4>",
        &["shop.CartTest.total CartTest.java 17"],
    );
}

#[test]
fn spaces_beside_dots() {
    check(
        "Uncaught Error: x\nsetup @ app. js:12\nat f (a .ts: 3:4)",
        "exception|Error|x",
        &["setup app.js 12", "f a.ts 3"],
    );
    check(
        "File \"/app/run. py\", line 8, in f\nError: It failed. go on",
        "exception|Error|It failed. go on",
        &["f /app/run.py 8"],
    );
}

#[test]
fn unity_perl_and_frameworks() {
    check(
        "NullReferenceException: Object reference not set
Shop.Cart.Total () (at Assets/Scripts/Cart.cs:21)",
        "exception|NullReferenceException|Object reference not set",
        &["Shop.Cart.Total Assets/Scripts/Cart.cs 21"],
    );
    check("Can't locate Cart.pm in @INC at shop.pl line 12.", "exception||", &["- shop.pl 12"]);
    check(
        "NoMethodError (undefined method 'total' for nil)",
        "exception|NoMethodError|undefined method 'total' for nil",
        &[],
    );
    check("TypeError at /cart/\nunsupported operand", "exception|TypeError|unsupported operand", &[]);
    check(
        "--- FAIL: TestTotal (0.00s)\n    cart_test.go:12: got 3, want 4",
        "assertion||TestTotal (0.00s)",
        &["- cart_test.go 12"],
    );
    check(
        "src/Cart.hs:12:5: error:\n    Variable not in scope: total",
        "compile_error||Variable not in scope: total",
        &["- src/Cart.hs 12"],
    );
}

#[test]
fn http_logs_and_dialogs() {
    check("GET http://localhost:3000/api/cart 404 (Not Found)", "http_status|404|(Not Found)", &[]);
    check("HTTP/1.1 500 Internal Server Error", "http_status|500|Internal Server Error", &[]);
    check("HTTP/1.1 200 OK", "||", &[]);
    check("2024-01-02 10:11:12 ERR0R shop.cart - could not save cart", "log||shop.cart - could not save cart", &[]);
    check("npm ERR! code ELIFECYCLE", "log|ELIFECYCLE|", &[]);
    check("Error\nThe file could not be saved\nOK", "dialog||Error: The file could not be saved", &[]);
    check("File Edit View\nSave\nCancel", "||", &[]);
}

#[test]
fn a_trace_whose_top_is_cut_off() {
    check("    at peek (/app/lexer.ts:3:4)", "exception||", &["peek /app/lexer.ts 3"]);
}

#[test]
fn code_that_handles_errors_shows_none() {
    check(
        "try:
    x = load(path)
except KeyError as error:
    raise ValueError(f\"bad: {path}\")
finally:
    done()",
        "||",
        &[],
    );
}

#[test]
fn what_only_looks_like_a_frame() {
    check("webpack@5.1.0:12 is installed\nuser@host:22\nat 10:30 we meet\nRatio 3:4\nversion 1.2.c:3", "||", &[]);
}
