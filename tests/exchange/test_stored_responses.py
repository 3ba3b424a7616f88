"""OpenAI's own way back to an answer: ``GET /v1/responses/{id}``, whole or from a sequence number on."""

from __future__ import annotations

import json

import pytest
import trio

from tests.exchange.test_conversion import ASKED, golden, on
from tests.exchange.test_reattach import failing, last_request, paced, wall_ms
from tests.support.harness import RESPONSES, gateway, settings
from tests.support.provider import Cut, Pause, plain, sse
from tests.support.streams import CHAT, SAMPLES

SAMPLE = SAMPLES["responses"]
FINAL = SAMPLE.body


async def test_after_the_end_it_is_the_object_of_the_terminal(autojump_clock, tmp_path):
    async with gateway(sse(*SAMPLE.events), spool=tmp_path) as world:
        original = await world.call("responses")
        response = await world.get("/v1/responses/resp_1")
    assert (response.status, response.json) == (200, FINAL)
    assert response.headers["x-request-id"] == original.headers["x-request-id"]
    assert response.headers["content-type"] == "application/json"


async def test_while_it_runs_it_is_as_far_as_it_has_come(autojump_clock, tmp_path):
    async with gateway(paced(SAMPLE.events), spool=tmp_path) as world:
        client = await world.start("responses")
        await trio.sleep(0.5)
        assert (await world.get("/v1/responses/resp_1")).status == 404
        await trio.sleep(3)
        response = await world.get("/v1/responses/resp_1")
        assert (response.status, response.json["status"]) == (200, "in_progress")
        await client.read()
        assert (await world.get("/v1/responses/resp_1")).json == FINAL


async def test_while_it_runs_it_has_the_output_that_has_been_told(autojump_clock, tmp_path):
    async with gateway(paced(SAMPLE.events), spool=tmp_path) as world:
        client = await world.start("responses")
        seen = []
        for _ in range(len(SAMPLE.events) + 1):
            await trio.sleep(1)
            response = await world.get("/v1/responses/resp_1")
            if response.status == 200 and response.json["output"]:
                item = response.json["output"][0]
                text = "".join(part["text"] for part in item["content"])
                seen.append((response.json["status"], item["status"], text))
        await client.read()
    assert FINAL["output"][0]["content"][0]["text"] == seen[-1][2]
    assert [text for *_, text in seen] == sorted((text for *_, text in seen), key=len)
    assert ("in_progress", "in_progress", "") in seen
    assert ("in_progress", "in_progress") in {each[:2] for each in seen if each[2]}
    assert seen[-1][:2] == ("completed", "completed")


@pytest.mark.parametrize("failure", ["event_abort", "truncate"])
async def test_of_a_stream_that_failed_it_says_so(failure, autojump_clock, tmp_path):
    config = settings(**failing(failure))
    script = sse(*SAMPLE.opening, *SAMPLE.answer, Cut())
    async with gateway(script, config=config, contract="mine", spool=tmp_path) as world:
        await world.call("responses")
        response = await world.get("/v1/responses/resp_1")
    assert (response.json["id"], response.json["status"]) == ("resp_1", "failed")
    assert response.json["error"]["code"] == "server_error"
    told = [part["text"] for item in response.json["output"] for part in item["content"]]
    assert told == (["Hello"] if failure == "truncate" else []), "a failed event says itself what there is"


async def test_of_an_answer_that_did_not_stream_it_is_the_answer(autojump_clock, tmp_path):
    body = json.dumps(FINAL).encode()
    async with gateway(plain(200, body), spool=tmp_path) as world:
        await world.call("responses", {**RESPONSES, "stream": False})
        response = await world.get("/v1/responses/resp_1")
        assert (response.status, response.body) == (200, body)
        streamed = await world.get("/v1/responses/resp_1?stream=true")
        assert (streamed.status, streamed.json["error"]["param"]) == (400, "stream")


async def test_it_is_streamed_again_from_any_number_on(autojump_clock, tmp_path):
    async with gateway(sse(*SAMPLE.events), spool=tmp_path) as world:
        original = await world.call("responses")
        whole = await world.get("/v1/responses/resp_1?stream=true")
        assert (whole.body, whole.clean) == (original.body, True)
        for number in range(len(SAMPLE.events)):
            response = await world.get(f"/v1/responses/resp_1?stream=true&starting_after={number}")
            assert response.data == original.data[number + 1 :]
        assert (await world.get("/v1/responses/resp_1?stream=true&starting_after=x")).status == 400


async def test_it_goes_on_live(autojump_clock, tmp_path):
    async with gateway(paced(SAMPLE.events), spool=tmp_path) as world:
        client = await world.start("responses")
        await trio.sleep(2.5)
        response = await world.get("/v1/responses/resp_1?stream=true&starting_after=0")
        original = await client.read()
        assert response.data == original.data[1:]


@pytest.mark.parametrize("channel", ["chat", "messages", "gemini"])
async def test_a_converted_answer_is_found_by_the_id_its_client_saw(channel, autojump_clock, tmp_path):
    async with gateway(sse(*golden(channel)), config=on(channel), spool=tmp_path) as world:
        original = await world.call("responses", ASKED["responses"])
        final = json.loads(original.data[-1])["response"]
        assert (await world.get(f"/v1/responses/{final['id']}")).json == final
        number = json.loads(original.data[1])["sequence_number"]
        again = await world.get(f"/v1/responses/{final['id']}?stream=true&starting_after={number}")
        assert again.data == original.data[2:]


async def test_another_accounts_answer_is_not_there(autojump_clock, tmp_path):
    async with gateway(sse(*SAMPLE.events), spool=tmp_path) as world:
        await world.call("responses")
        await world.ledger.create_account("other", 10**9)
        _, secret = await world.ledger.create_key("other")
        for query in ("", "?stream=true"):
            response = await world.get(f"/v1/responses/resp_1{query}", secret=secret)
            assert (response.status, response.json["error"]["code"]) == (404, "not_found")
        await world.call("responses", secret=secret)
        mine = await world.get("/v1/responses/resp_1", secret=secret)
        assert (mine.status, mine.headers["x-request-id"]) == (200, await last_request(world)), "one id, two accounts"


async def test_a_chat_answer_has_no_such_name_and_a_request_id_is_none(autojump_clock, tmp_path):
    async with gateway(sse(*CHAT.events), spool=tmp_path) as world:
        original = await world.call("chat")
        assert (await world.get("/v1/responses/chatcmpl-1")).status == 404
        assert (await world.get(f"/v1/responses/{original.headers['x-request-id']}")).status == 404


async def test_it_is_gone_after_a_while(autojump_clock, tmp_path):
    async with gateway(sse(*SAMPLE.events, Pause(1)), spool=tmp_path, now_ms=wall_ms) as world:
        await world.call("responses")
        await trio.sleep(605)
        response = await world.get("/v1/responses/resp_1")
    assert (response.status, response.json["error"]["code"]) == (410, "gone")


async def test_only_a_get_is_taken(autojump_clock, tmp_path):
    async with gateway(sse(*SAMPLE.events), spool=tmp_path) as world:
        response = await world.call("responses", path="/v1/responses/resp_1")
        assert (response.status, response.headers["allow"]) == (405, "GET")
        assert (await world.get("/v1/responses/resp_1/input_items")).status == 404
        assert (await world.call("responses", path="/v1/responses/compact")).status == 404
