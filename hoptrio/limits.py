"""Every bound in the gateway, with its unit in the name and where the number comes from.

A bound that an operator may set lives in the config and has its default here.
"""

from __future__ import annotations

__all__: list[str] = []

KIB = 1024
MIB = 1024 * KIB

# -- downstream: what a client may send, and how slowly --------------------------------------------------------------

#: Request head (line and headers) of one request. nginx allows 32 KiB in four buffers, h11 16 KiB; agents send ~4 KiB.
HEAD_BYTES_MAX = 64 * KIB
#: Headers in one request; Apache's default.
HEADERS_MAX = 100
#: From the first byte of a head to its last; nginx's client_header_timeout is 60 s, slow-loris defences use 10-30 s.
HEAD_S = 20.0
#: An idle keep-alive connection waits this long for its next request; nginx's keepalive_timeout is 75 s.
KEEPALIVE_IDLE_S = 75.0
#: A request body; agent turns with images reach tens of MB, Anthropic's own limit is 32 MB, OpenAI's about 50 MB.
BODY_BYTES_MAX = 64 * MIB
#: A body must arrive whole within this, and never pause longer than `BODY_IDLE_S`.
BODY_S = 300.0
BODY_IDLE_S = 30.0
#: JSON nesting in a request body; no real request is deeper than about 30 (tool schemas).
JSON_DEPTH_MAX = 200
#: A caller's own ``X-Client-Request-Id`` is kept this far, and looked for so; UUIDs and ids of traces have 32 to 55.
CLIENT_REQUEST_ID_CHARS_MAX = 128
#: A model's name; it goes into records, and the longest in use (with organisation and version) have about 100.
MODEL_NAME_CHARS_MAX = 256
#: Brackets and braces in a request body, those inside strings included. A parsed container is up to 25 times its
#: bytes, so this bounds a body's memory at about 300 MB; a prompt of 10 MB of source code holds some 500,000.
JSON_BRACKETS_MAX = 2_000_000
#: Bytes of a next (pipelined) request that are read while a response is still running.
PIPELINED_BYTES_MAX = 64 * KIB
#: After our FIN the client's bytes are read and thrown away for this long, since close() with unread input is a RST.
LINGER_S = 2.0
#: HTTP/1.0 has no chunked framing: its send queue is drained for at most this long before the RST that marks an abort.
LINGER_HTTP10_S = 1.0
#: A whole answer (not a stream) is taken by its client within this; the counterpart of `BODY_S`.
RESPOND_S = 300.0
#: Chunks of one chunked request body: 64 MiB in 4 KiB writes are 16,384, and each costs a parse.
CHUNKS_MAX = 65_536
#: The wait after an accept that failed for want of descriptors or memory; trio.serve_listeners waits as long.
ACCEPT_BACKOFF_S = 0.1
#: An idle connection may still ask once for this long into a drain, since its request may be on the way: a client that
#: finds it closed has lost one. What then comes is answered with ``Connection: close``.
DRAIN_IDLE_S = 1.0
#: Connections that wait to be accepted; Linux lowers it to somaxconn (4,096).
LISTEN_BACKLOG = 4096
#: Connections one process accepts at a time, streams or not.
CONNECTIONS_MAX = 20_000

# -- websocket: one connection, many turns ---------------------------------------------------------------------------

#: A connection lives so long; OpenAI's own limit, at which its clients open a new one.
WEBSOCKET_LIFE_S = 3_600.0
#: Without a running turn and without a frame for this long it is closed; its client opens another when it has a turn.
WEBSOCKET_IDLE_S = 900.0
#: Pings, and the wait for any byte that answers one: a peer that is gone without a FIN is noticed in a minute. Clients
#: do not answer while their own queue of messages is full, so it is longer than their users take to look at one.
WEBSOCKET_PING_S = 20.0
WEBSOCKET_PONG_S = 40.0
#: An unfinished message above this is to be whole within `BODY_S`, like a body; below it are pings and the like.
WEBSOCKET_UNFINISHED_BYTES_MAX = 1 * MIB
#: The closing handshake; the library itself waits for the peer's half for ever.
WEBSOCKET_CLOSE_S = 2.0
#: Named lanes and turns that run at a time on one connection: OpenAI's own numbers.
WEBSOCKET_LANES_MAX = 32
WEBSOCKET_TURNS_MAX = 16
#: Turns that wait for their lane, and their bytes: a body's worth. Beyond it a turn is refused with a 429.
WEBSOCKET_QUEUE_MAX = 64
WEBSOCKET_QUEUE_BYTES_MAX = BODY_BYTES_MAX
#: One event on its way to a client: a converted terminal repeats all that was converted, in JSON.
TURN_EVENT_BYTES_MAX = 256 * MIB
#: Answers of a connection that a later turn may continue, and what they and their inputs weigh: on one connection (one
#: conversation can be no larger than a body), and in the process. What was dropped has to be sent again.
CHAINS_MAX = 64
CHAINS_BYTES_MAX = BODY_BYTES_MAX
CHAINS_TOTAL_BYTES_MAX = 512 * MIB

# -- stream: what waits for a client, and for how long ---------------------------------------------------------------

#: Events waiting for one client, and for all clients of the process.
BACKLOG_BYTES_MAX = 4 * MIB
BACKLOG_TOTAL_BYTES_MAX = 512 * MIB
#: A client that takes nothing for this long has left.
WRITE_STALL_S = 30.0
#: What is undelivered this long after the deadline is dropped and the connection aborted.
DELIVERY_GRACE_S = 60.0
#: A settlement that is not durable by then fails the stream by its `failure` row.
SETTLE_S = 10.0
#: Gemini has no terminal event: this much silence after a finishReason is the end of the body.
GEMINI_TAIL_S = 30.0
#: After a Responses `error` event, `response.failed` is awaited this long.
RESPONSES_FAILED_S = 5.0
#: Text of an answer that is kept to be measured should usage be missing: 600 s at 1,500 tokens a second are 3.6 MB.
#: What is beyond it is not charged. The parts (choices, items, blocks) it is kept by; further ones share one.
PRODUCED_BYTES_MAX = 4 * MIB
PRODUCED_PARTS_MAX = 256
#: An event or item above this holds an image or a file and no words.
PRODUCED_EVENT_BYTES_MAX = 1 * MIB
#: Text of a request that is measured; the largest context windows are about as large.
ASKED_BYTES_MAX = 8 * MIB
#: Up to here text is measured on the event loop, 0.1 ms and at worst 1.3; a thread costs as much. Above it in a thread,
#: 12 MiB in 1.2 s at worst; what is not measured by `MEASURE_S` is not charged.
MEASURE_INLINE_BYTES_MAX = 32 * KIB
MEASURE_S = 5.0
#: Silence in an answer that the timeline shows, and how many events a timeline has before it leaves out further gaps
#: and keep-alives: one each 10 s fills the deadline.
GAP_SHOWN_S = 5.0
TIMELINE_EVENTS_MAX = 100
#: A count of tokens before a request: the provider's answer, or a thread for our own.
COUNT_S = 30.0
#: Threads that count at a time: each is at it for 0.8 s at most, with the GIL released.
COUNTERS_MAX = 2
#: A channel that has no call for counting is asked again after this.
COUNT_ABSENT_S = 600.0
#: An estimate of what no tokenizer reads: a picture of a megapixel has 1,600 tokens at Anthropic, 765 to 1,100 at
#: OpenAI, 258 a tile at Google; a page of a document as many. And what a chat template adds to a message.
ATTACHMENT_TOKENS = 1_600
TURN_TOKENS = 4
#: The longest deadline a contract may have, and the default; from the first dispatch.
DEADLINE_S = 600.0
#: No model progress for this long is a stall, unless the model says otherwise; 90 to 150 s are usual.
STALL_S = 120.0
STALL_MIN_S = 10.0
STALL_MAX_S = 590.0

# -- protocols -------------------------------------------------------------------------------------------------------

#: What one stream may bring in all to be converted, since some protocols repeat all of it at the end.
CONVERTED_BYTES_MAX = 64 * MIB
#: Choices of one answer that a conversion keeps apart; the most that OpenAI gives.
CHOICES_MAX = 128
#: What a request may ask for of one thing: choices, images, calls of hosted tools. The most that any server gives (of
#: choices: vLLM); beyond it the hold would be a number that says nothing.
COUNT_ASKED_MAX = 16_384
#: One SSE event; images arrive as one event of several MiB.
EVENT_BYTES_MAX = 16 * MIB
#: An unfinished event counts as progress from this size on: one read's worth, more than any ping or heartbeat has.
EVENT_LARGE_BYTES = 64 * KIB
#: A provider's own error message is kept this far.
ERROR_MESSAGE_CHARS_MAX = 2_000
#: The body of a response that does not stream.
UNARY_BYTES_MAX = 64 * MIB
#: A provider's error body is read this far, for its message.
ERROR_BODY_BYTES_MAX = 256 * KIB
#: A token count above this is not evidence. The largest context windows are ten million tokens.
TOKENS_MAX = 10**9
#: Tokens added to a quote beyond the bytes of the body, for what a provider's chat template adds.
QUOTE_MARGIN_TOKENS = 64
#: The same for a tool whose schema the provider supplies (bash, text editor): Anthropic lists 245 to 700 tokens each,
#: and up to 530 for the instructions that come with any tools at all.
QUOTE_BUILTIN_TOOL_TOKENS = 1_000
QUOTE_TOOLS_TOKENS = 600
#: Calls of one hosted tool in one request where the request sets no bound of its own; it is then set upstream where the
#: protocol has a field for it. Agentic searches make 5 to 20.
HOSTED_CALLS_MAX = 32
#: The output limit of a request converted to Messages, which demands one, where neither the client nor the model's
#: config names any: what Claude Code asks for, and within reach of every current Claude.
CONVERTED_OUTPUT_TOKENS = 32_000

# -- admission: channels in trouble, and attempts -------------------------------------------------------------------

#: Failures in a row, without a success between them, that close a channel.
FAILURES_IN_A_ROW = 3
#: A cool-down; it doubles from the one to the other while trials fail. A channel is doubted for the shortest.
COOLDOWN_MIN_S = 5.0
COOLDOWN_MAX_S = 300.0
#: A provider's Retry-After is honoured this far. One request of one caller may bring it about (a prompt beyond a limit
#: per minute), and it closes the channel for everybody; a quota of the day is asked about again.
COOLDOWN_ASKED_MAX_S = 600.0
#: A closed channel whose provider refused so often (429, 401) in `COOLDOWN_MIN_S` is not asked for want of others.
LAST_RESORTS_MAX = 20
#: The stream that tries a channel is heard of by then, or another may try: the process may have died.
TRIAL_S = 60.0
#: Trouble that nobody has touched for so long is forgotten.
TROUBLE_KEPT_S = 600.0
#: The shared state of health: 128 buckets of 8, for channels and models that are in trouble at one time.
HEALTH_BUCKETS = 128
HEALTH_BUCKET_SLOTS = 8
#: Its lock is held for microseconds; a process that was stopped with it must not stop the others.
HEALTH_LOCK_S = 0.005
#: Opening events kept back while another attempt is possible. `response.created` repeats instructions and tools, in
#: hundreds of KiB; beyond this they are written, and there is no other attempt.
OPENING_BYTES_MAX = 1 * MIB

# -- upstream --------------------------------------------------------------------------------------------------------

#: DNS, TCP and TLS together.
CONNECT_S = 10.0
#: A response head of the provider.
UPSTREAM_HEAD_BYTES_MAX = 64 * KIB
#: One read from the provider; the relay's own figure, and trio's default.
READ_BYTES_MAX = 64 * KIB
#: Idle connections kept per origin, and how long: below the 60 s after which common load balancers close.
POOL_IDLE_MAX = 1_000
POOL_IDLE_S = 50.0
#: A connection is not used again beyond this age, so that DNS changes are followed.
POOL_AGE_S = 600.0
#: After the terminal, the end of a provider's body is awaited this long so that the connection can be used again.
POOL_FINISH_S = 1.0
POOL_FINISH_BYTES_MAX = 64 * KIB
#: Expired and broken idle connections are looked for this often, so that none lies half closed for long.
POOL_SWEEP_S = 10.0
#: A request up to this size is written before the answer is looked for; a larger one while it is, since a provider may
#: refuse it (413) without reading it. It fits what an unread socket buffers at both ends.
SEND_FIRST_BYTES_MAX = 64 * KIB
#: The line of a chunk's size, extensions included, and all lines of a trailer; h11 allows as much as for a head.
CHUNK_LINE_BYTES_MAX = 4 * KIB
TRAILER_BYTES_MAX = 16 * KIB
#: A decoded body may be this many times its compressed size, and this large whatever that was. Model output compresses
#: by 3 to 20; deflate's own limit, which only a bomb meets, is 1,032.
DECODED_RATIO_MAX = 200
DECODED_BYTES_FREE = 1 * MIB
#: Encodings laid over each other; one is all that is ever seen.
DECODED_LAYERS_MAX = 2
#: TCP keep-alive probes notice a provider that vanished (a NAT entry lost): first probe, interval, count.
TCP_KEEPALIVE_IDLE_S = 60
TCP_KEEPALIVE_INTERVAL_S = 15
TCP_KEEPALIVE_PROBES = 4
#: A provider's own message, where it is shown at all.
PROVIDER_MESSAGE_CHARS_MAX = 2_000
#: From this length on a channel's secret is taken out of such a message; a shorter one may be any word.
REDACTED_CHARS_MIN = 8

# -- ledger ----------------------------------------------------------------------------------------------------------

#: Operations in one commit; measured: 64 reaches 80 % and 256 all of SQLite's rate.
COMMIT_OPS_MAX = 256
#: From one commit to the next while there is much to write (`ledger.writer.Pace`). More brings little:
#: of the CPU of a short stream 2 ms take 0.86, 3 ms 0.78 and 5 ms 0.77.
COMMIT_EVERY_S = 0.003
#: Up to so many operations a second, and so many at once above that, each is committed at once.
COMMIT_ALONE_HZ = 400.0
COMMIT_ALONE_OPS = 8
#: Operations waiting for the writer; beyond it a hold is refused with 503 (settlements are never refused).
LEDGER_QUEUE_MAX = 4_096
#: Pause before a failed commit is tried again; it doubles from the one to the other.
LEDGER_RETRY_MIN_S = 0.05
LEDGER_RETRY_MAX_S = 1.0
#: Closing gives up then, on a disk that hangs: longer than `SETTLE_S`, the time for what is still owed.
LEDGER_CLOSE_S = 15.0
#: Bytes of settlements that are journalled and not applied, per process; beyond it a hold is refused with 503, so that
#: a long outage cannot fill the disk. A settlement has 0.5 to 2 KB, so a full process's 10,000 streams fit twice.
JOURNAL_BYTES_MAX = 64 * MIB
#: Applied settlements in a journal before its file is emptied: some 250, so that it costs no sync worth counting.
JOURNAL_RECLAIM_BYTES = 256 * KIB
#: A settlement that the journal's disk has not taken by then goes to the database too: well before `SETTLE_S`.
JOURNAL_S = 2.0
#: Pages (4 KiB) in SQLite's WAL before they are folded into the file; its own number is 1,000. Many are the same few
#: again and again, and each is folded once: eight times the number measured as 4 % of a short stream's CPU.
SQLITE_WAL_PAGES = 4_000
#: SQLite itself waits this long for another process's lock, in the writer thread and (reads) on the event loop.
SQLITE_BUSY_S = 1.0
SQLITE_READ_BUSY_S = 0.1
#: PostgreSQL, on the server: a row locked for longer makes the batch busy, and it is tried again; a statement that runs
#: longer is cancelled; a transaction whose gateway fell silent gives its locks back. A batch takes some 2 ms.
POSTGRES_LOCK_S = 1.0
POSTGRES_STATEMENT_S = 4.0
POSTGRES_IDLE_S = 5.0
#: In the gateway: an answer that takes longer than this ends the connection, whatever the server does. Like `HOLD_S`,
#: after which nobody waits for it.
POSTGRES_ANSWER_S = 5.0
#: The same for scans, which may sort a large table; libpq's own minimum for a connection is 2 s.
POSTGRES_SCAN_S = 60.0
POSTGRES_CONNECT_S = 3
#: Point reads at a time, and connections kept for them. One takes 0.2 ms on a local network.
POSTGRES_READERS = 4
#: Keep-alive probes of an idle connection to the server: first, interval, count.
POSTGRES_KEEPALIVE_IDLE_S = 10
POSTGRES_KEEPALIVE_INTERVAL_S = 3
POSTGRES_KEEPALIVE_PROBES = 3
#: One file of the schema, which may have to build an index; and the wait for another process that is at it.
POSTGRES_MIGRATE_S = 3600.0
POSTGRES_MIGRATE_LOCK_S = 60.0
#: Rows of a scan that are fetched at a time.
POSTGRES_FETCH_ROWS = 2_000
#: A provider-side id beyond this is kept as its hash: a B-tree's entry is bounded (2,704 bytes).
POSTGRES_KEY_CHARS_MAX = 500
#: Characters of an account name.
NAME_CHARS_MAX = 200
#: Records of refused requests that wait to be kept; beyond it they are dropped.
LEDGER_NOTES_MAX = 1_024
#: A hold that is not committed by then is refused with 503.
HOLD_S = 5.0
#: An owner that has not renewed its lease for this long is dead, and its holds are orphans.
LEASE_S = 15.0
LEASE_RENEW_S = 5.0
#: Names of owners without open holds are forgotten a day after their last renewal.
OWNER_KEPT_MS = 86_400_000
SWEEP_S = 5.0
#: Rows that an export has in memory.
EXPORT_PAGE_ROWS = 1_000
#: Records of requests forgotten in one commit, which holds and settlements wait for; the pause to the next one, and to
#: the next round. A million rows take 20 minutes.
PURGE_ROWS = 200
PURGE_PAUSE_S = 0.25
PURGE_EVERY_S = 3600.0
#: What other processes certified is known this much later; `hoptrio certify` beside a running server must be felt.
CERTIFICATES_S = 2.0
#: A probe is over by then, its connection included; a model that has to be loaded first may take a minute.
PROBE_S = 60.0
#: What a probe lets a model write: a reasoning model needs some hundred tokens to say one word.
PROBE_OUTPUT_TOKENS = 512
#: Probes one process makes at a time, and on one channel.
PROBES_MAX = 32
PROBES_OF_CHANNEL_MAX = 8
#: One thing is probed at most this often, over all processes of a ledger.
PROBE_EVERY_S = 600.0
#: A probe that no provider got may be made again after this.
PROBE_UNREACHED_S = 30.0
#: What a probe has proven to lack usage, or to refuse our key, is looked at again after this.
PROBE_PROVEN_S = 3600.0
#: A probe that has not ended by then is nobody's any more: `PROBE_S`, and time for the ledger.
PROBE_CLAIM_S = 75.0
#: How often a round of probes is looked at while it goes on.
PROBE_ROUND_S = 0.1
#: A start is announced, and a new config taken over, this much later at most, where the probes of new channels hang.
ROUND_S = 10.0
#: Told as Retry-After to a caller whose channels the first round has yet to decide on; a probe takes seconds.
ROUND_RETRY_S = 3.0
#: Streams in a row without evidence that make a probe decide: from several accounts, from one.
SUSPECTS_OF_SEVERAL = 3
SUSPECTS_OF_ONE = 10
#: A key's requests a minute are the holds it placed in the last so many milliseconds.
RATE_WINDOW_MS = 60_000
#: Output that ended in a release is counted, and compared with that of other keys, for this long.
RELEASED_WINDOW_S = 600.0
#: Records of refused requests that are kept for one key a minute and process: what an agent in a loop is refused for is
#: said by the first; the rest would only fill the disk.
REFUSALS_KEPT_MAX = 600
#: The largest Retry-After we send: node SDKs sleep as long as they are told.
RETRY_AFTER_MAX_S = 60

# -- spool: what clients were told, for those who come back -----------------------------------------------------------

#: A stream is kept so long after its end, and up to this size; all that a machine keeps on disk. By default.
SPOOL_KEPT_S = 600.0
SPOOL_STREAM_BYTES_MAX = 16 * MIB
SPOOL_BYTES_MAX = 1024 * MIB
#: What of a stream is in memory before it goes to a file; a read of a file is of this size, too.
SPOOL_PIECE_BYTES = 64 * KIB
#: The spool counts a growing stream in steps of this size: 1 us each, and up to one step a stream is not counted.
SPOOL_STEP_BYTES = 4 * KIB
#: A write of this size is not gathered but goes as it is; so much goes to the disk at a time, or what there is after a
#: tick. Together they halve what a burst costs.
SPOOL_DIRECT_BYTES = 16 * KIB
SPOOL_WRITE_BYTES = 256 * KIB
#: In the memory of one process, and on its way to the disk. Beyond the first everything is written out; while more than
#: the second waits, what should be written is lost instead.
SPOOL_MEMORY_BYTES_MAX = 32 * MIB
SPOOL_QUEUE_BYTES_MAX = 32 * MIB
#: When memory is full, this part of it is written out; streams that are written out at a time: 1 ms of the event loop.
SPOOL_RELIEF = 16
SPOOL_BATCH = 128
#: One file; a cap below sixteen of them makes them smaller.
SPOOL_SEGMENT_BYTES_MAX = 16 * MIB
#: And no longer than this is written to one, so that no answer lies on the disk for much longer than it is kept.
SPOOL_SEGMENT_MS = 60_000
#: What has ended is written out, and what has expired is taken away, this often.
SPOOL_TICK_S = 1.0
#: This part of the disk is left for processes that start, until the others have made room for them.
SPOOL_SPARE = 8
#: What dead processes have left, and what is each one's share, is looked at this often.
SPOOL_SWEEP_S = 10.0
#: Another process of the machine says by then whether a stream is its own; it may be stopped, or hang. One that is
#: about to end answers no more, and its files are nobody's a moment later: it is asked again, this many times.
SPOOL_ASK_S = 2.0
SPOOL_ASKS_MAX = 5
SPOOL_ASK_PAUSE_S = 0.1
#: An Idempotency-Key; longer ones are refused. What the ledger remembers of it is forgotten after two days, since a
#: stream is kept for a day at most.
IDEMPOTENCY_KEY_CHARS_MAX = 255
CLAIM_KEPT_MS = 2 * 86_400_000
#: A retry whose original cannot be reached is told to come back after this: holds of the dead are released by then.
CLAIM_RETRY_S = 5
#: Originals in a row may come to nothing, as each client leaves before its dispatch, until a retry is told that.
CLAIM_ROUNDS_MAX = 16

# -- service: workers and their supervisor ---------------------------------------------------------------------------

#: A worker that is not ready by then is taken for hung; ready takes 0.3 s, and a busy machine or disk many times that.
WORKER_READY_S = 60.0
#: A draining worker is killed this long after the grace; what it had not settled is swept as orphaned.
WORKER_KILL_S = 10.0
#: The pause before a crashed worker is started again; it doubles from the one to the other with each that does not live
#: for `WORKER_STABLE_S`.
WORKER_RESTART_MIN_S = 0.1
WORKER_RESTART_MAX_S = 30.0
WORKER_STABLE_S = 10.0
#: The grace of workers whose supervisor is gone: long enough to settle what is about to end, short enough that whoever
#: starts the next supervisor does not find them for long.
ORPHAN_GRACE_S = 5.0

# -- telemetry: what processes count, and tell each other ------------------------------------------------------------

#: How often a process tells; what is not renewed for so long is a dead process's. Live streams are told for so long
#: after somebody asked, and this many of them.
FIGURES_S = 0.5
FIGURES_STALE_S = 5.0
FIGURES_WANTED_S = 10.0
FIGURES_LIVE_MAX = 500
FIGURES_ASK_S = 2.0
#: What one process tells at most, twice: 500 streams with their timelines are some 200 KiB.
FIGURES_BYTES_MAX = 512 * KIB
#: Combinations of protocol, model and channel that a process counts apart, with some 500 bytes each.
FIGURES_GROUPS_MAX = 600
#: What waits for a collector is exported for so long when the process ends.
OTEL_FLUSH_S = 3.0
#: The history that is drawn: intervals, and how many.
FIGURES_SAMPLE_S = 5
FIGURES_SAMPLES = 120

# -- control plane ---------------------------------------------------------------------------------------------------

#: What it is sent: forms and small JSON objects; and the fields of a form.
CONTROL_BODY_BYTES_MAX = 256 * KIB
CONTROL_BODY_S = 10.0
CONTROL_FIELDS_MAX = 100
#: Requests one process answers at a time, pages that watch included.
CONTROL_REQUESTS_MAX = 256
#: Connections of one process. Each has one answer in memory at most, and one that its client has closed counts until it
#: has been idle for `CONTROL_IDLE_S`.
CONTROL_CONNECTIONS_MAX = 512
#: Questions of programs that one process works on at a time, and those that wait: their rows are read by threads that
#: streams share the interpreter with.
CONTROL_QUESTIONS = 2
CONTROL_QUESTIONS_WAITING_MAX = 64
#: Ids, names of models and channels; reasons. The rows of one answer.
CONTROL_WORD_CHARS_MAX = 256
CONTROL_WHY_CHARS_MAX = 2_000
CONTROL_PAGE_ROWS_MAX = 500
#: Rows that are made into an answer before streams have their turn.
CONTROL_TURN_ROWS = 25
#: The rows that a command writes at most, however many pages they are.
CLI_ROWS_MAX = 10_000
#: A call of the command line to a control plane; probing many channels takes minutes.
CONTROL_CALL_S = 600.0
#: An idle connection, and a head that does not end: operators are few, and none of them is worth a descriptor.
CONTROL_IDLE_S = 15.0
#: At the end of the process answers are given so long to be taken; what a client does not take for so long is lost.
CONTROL_GRACE_S = 1.0
CONTROL_WRITE_STALL_S = 5.0
#: A page that keeps itself current looks for news so often, sends at least a comment so often, and is opened anew so
#: often, when the session is looked at again.
LIVE_EVERY_S = 1.0
LIVE_ALIVE_S = 15.0
LIVE_S = 300.0
#: What the overview shows of the ledger is read at most so often, whoever looks on.
LIVE_LEDGER_S = 2.0
#: The pause before a control plane that failed is started again.
CONTROL_RESTART_S = 1.0
#: A person's login; the memory of all that are open, at 24 bytes each; and how many wrong tokens of an address are
#: looked at in a while before it is told to wait, for so many addresses.
SESSION_S = 12 * 3600
SESSIONS_BYTES = 6 * KIB
LOGIN_CALLERS_MAX = 10_000
LOGINS_FAILED_MAX = 10
LOGINS_FAILED_S = 60.0

# -- process ---------------------------------------------------------------------------------------------------------

#: Blocks above this are mapped on their own and returned when freed; four reads of `READ_BYTES_MAX`, so that the hot
#: path never maps.
HEAP_BLOCK_BYTES_MAX = 256 * KIB
