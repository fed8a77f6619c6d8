#!/usr/bin/env python3
"""Drives `sightline mcp` with the official Python client library, as an agent does, and asserts what it answers.

    pip install mcp==2.3.0
    scripts/mcp_check.py [binary] [repository]

The repository is only read: indexes go to a temporary folder. The client checks every answer against the tool's output schema.
Both ways to begin are taken: `initialize`, and the newer one without it.
"""

import asyncio
import pathlib
import sys
import tempfile
import time

from mcp import Client, MCPError, StdioServerParameters

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"


def text_of(result):
    assert len(result.content) == 1, result.content
    return result.content[0].text


async def answered(client, tool, arguments, **rest):
    start = time.monotonic()
    result = await client.call_tool(tool, arguments, **rest)
    took = time.monotonic() - start
    assert not result.is_error, text_of(result)
    lines = text_of(result).splitlines()
    print(f"  {tool}: {took:.2f} s, {len(lines)} lines, {len(text_of(result))} characters: {lines[0]} {lines[1] if len(lines) > 1 else ''}")
    return text_of(result), result.structured_content


async def refused(client, tool, arguments, part):
    result = await client.call_tool(tool, arguments)
    assert result.is_error and part in text_of(result), result
    print(f"  refused: {text_of(result)}")


async def check(client, repository):
    assert client.server_info.name == "sightline", client.server_info
    assert "locate_issue" in client.instructions
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"locate_issue", "index_repository", "index_status"}, tools
    assert tools["locate_issue"].annotations.read_only_hint and not tools["index_repository"].annotations.read_only_hint
    assert all(tool.output_schema and tool.input_schema["additionalProperties"] is False for tool in tools.values())

    issue = (FIXTURES / "issue.md").read_text()
    title, body = issue.split("\n", 1)
    fixture = {"path": str(FIXTURES / "repository"), "title": title, "body": body}
    text, found = await answered(client, "locate_issue", fixture)
    assert "src/discounts.py" in [it["path"] for it in found["files"][:3]], text
    assert "discount_of" in [it["function"] for it in found["functions"][:5]], text
    _, found = await answered(client, "locate_issue", fixture | {"k": 2, "detail": "full", "granularity": "function"})
    assert len(found["functions"]) == 2 and found["files"] == [] and found["functions"][0]["lines"], found
    picture = fixture | {"images": [str(FIXTURES / "images" / "rgb_16.png")]}
    text, _ = await answered(client, "locate_issue", picture)
    assert "images[0] was not used" in text, text

    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    _, indexed = await answered(client, "index_repository", {"path": fixture["path"]}, progress_callback=progress)
    assert indexed["vectors"] == indexed["windows"] > 0, indexed
    assert told == sorted(told, key=lambda it: it[0]) and all(it[1] == 100 for it in told), told
    _, status = await answered(client, "index_status", {})
    assert fixture["path"] in [it["path"] for it in status["repositories"]], status

    await refused(client, "locate_issue", {"titel": "x"}, "unknown field `titel`")
    await refused(client, "locate_issue", {"path": fixture["path"]}, "nothing to ask")
    await refused(client, "index_repository", {"path": "/no/such/folder"}, "/no/such/folder")
    try:
        await client.call_tool("locate", {})
    except MCPError as error:
        print(f"  no tool: {error}")
    else:
        raise AssertionError("a tool that there is not was called")

    # A larger one, first without an index, then with one of its words.
    for what in ("the log line of a request lacks its id", "a picture with a colour profile is refused"):
        await answered(client, "locate_issue", {"path": str(repository), "title": what})

    # Given up at once: the server goes on.
    indexing = asyncio.create_task(client.call_tool("index_repository", {"path": str(repository)}))
    await asyncio.sleep(1)
    indexing.cancel()
    await asyncio.gather(indexing, return_exceptions=True)
    await answered(client, "locate_issue", {"path": str(repository), "title": "a cancelled job goes on"})


async def main():
    binary = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/sightline").resolve())
    repository = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT).resolve()
    for mode in ("legacy", "auto"):
        with tempfile.TemporaryDirectory() as data:
            command = StdioServerParameters(
                command=binary, args=["mcp", "--log", "warn", "--data-dir", data], cwd=str(FIXTURES / "repository")
            )
            start = time.monotonic()
            async with Client(command, mode=mode) as client:
                print(f"{mode}: {client.protocol_version}, {time.monotonic() - start:.2f} s until it answers")
                await check(client, repository)
                end = time.monotonic()
            print(f"  ended in {time.monotonic() - end:.2f} s")
    print("all answers are as they should be")


asyncio.run(main())
