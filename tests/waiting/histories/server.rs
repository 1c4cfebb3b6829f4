//! A real server, to which the same happens as to the simulated one.

use std::collections::BTreeMap;

use redis::RedisResult;
use rlock_oracle::operations::{CHANNELS, Channel, LOCKS, Lock, OWNERS, Options, Run, Seen};

use super::lines::{How, Line};

use rlock_testkit::prelude::*;

/// Reads everything that [`Seen`] has of each lock: one text for each field. An argument for each lock says whether to ask
/// for its queue. In one script, since replies are what costs time here.
const LOOK: &str = "
    local function ends(of) return string.format('%.0f', redis.call('pexpiretime', of)) end
    local function text(words) table.sort(words) return table.concat(words, ' ') end
    local function map(flat)
        local fields = {}
        for n = 1, #flat, 2 do fields[flat[n]] = flat[n + 1] end
        return fields
    end
    local function look(key, asks)
        local braced, leases, list, fields, alive, queue = '{' .. key .. '}', {}, {}, {}, {}, {}
        local keys = redis.call('scan', 0, 'match', braced .. ':*:rwlock_timeout:*', 'count', 10000)[2]
        for _, of in ipairs(keys) do
            local owner, hold = of:match(':(.*):rwlock_timeout:(.*)')
            leases[#leases + 1], alive[owner] = owner .. ':' .. hold .. '=' .. ends(of), true
        end
        for _, of in ipairs(redis.call('lrange', 'redisson_lock_queue:' .. braced, 0, -1)) do
            list[#list + 1] = of .. '=' .. (redis.call('zscore', 'redisson_lock_timeout:' .. braced, of) or '-')
        end
        local kind = redis.call('type', key).ok
        local hash = kind == 'hash' and map(redis.call('hgetall', key)) or {}
        for field, value in pairs(hash) do
            local is_read = hash.mode and field ~= 'mode' and not field:find(':write')
            if not is_read or alive[field] then fields[#fields + 1] = field .. '=' .. value end
        end
        local token = redis.call('get', 'redisson_lock_token:' .. braced) or ''
        for _, flat in ipairs(asks == '1' and map(redis.call('rlock.info', key)).queue or {}) do
            local of = map(flat)
            local words = {of.owner, of.mode or 'null', of.via, of['wait-left-ms'], of['client-id']}
            queue[#queue + 1] = table.concat(words, ' ')
        end
        return kind .. ' ' .. ends(key) .. ' ' .. text(fields), text(leases), table.concat(list, ' '), token,
            table.concat(queue, ',')
    end
    local seen = {}
    for n, of in ipairs({{0, 'a'}, {0, 'b'}, {1, 'a'}}) do
        redis.call('select', of[1])
        for _, field in ipairs({look(of[2], ARGV[n])}) do seen[#seen + 1] = field end
    end
    return seen";

/// A connection, and the number of its client.
type Client = (Connection, i64);

/// Messages, each with its channel.
type Messages<C> = Vec<(C, String)>;

pub(crate) struct Server {
    server: TestServer,
    /// A connection to each database, for commands that do not block.
    said_on: [Connection; 2],
    idle: [Vec<Client>; 2],
    /// The calls that are blocked.
    calls: BTreeMap<usize, (usize, Client)>,
    /// Hears all messages; none only while it is changed.
    subscriber: Option<Subscriber>,
    heard: [bool; CHANNELS.len()],
    is_listened: bool,
    /// The clock that never steps at the start of the history, in ms.
    start: i64,
    /// The clocks as they were last set.
    clocks: (i64, i64),
}

impl Server {
    /// None where the server reads its monotonic clock from the processor, as Valkey 9 does: that cannot be set.
    pub(crate) fn start() -> Option<Self> {
        let server = TestServer::builder().with_clocks_that_stand().conf("hz", 500);
        // Its waits would end at once, for the wall clock stands far behind.
        let server = server.conf("jemalloc-bg-thread", "no").start();
        if !server.info("server")["monotonic_clock"].contains("clock_gettime") {
            eprintln!("left out: the clocks of this server cannot be set");
            return None;
        }
        let mut said_on = [0, 1].map(|db| connect(&server, db).0);
        // A key that has expired is deleted when it is read.
        assert_eq!(say(&mut said_on[0], "DEBUG SET-ACTIVE-EXPIRE 0"), "OK");
        let (idle, calls, subscriber) = (Default::default(), BTreeMap::new(), Subscriber::connect(&server));
        let (subscriber, heard, is_listened) = (Some(subscriber), [false; CHANNELS.len()], false);
        let (start, clocks) = (1 << 40, (0, 0));
        Some(Self { server, said_on, idle, calls, subscriber, heard, is_listened, start, clocks })
    }

    /// Empties the server for a new history.
    pub(crate) fn begin(&mut self, options: &Options, run: &Run) {
        assert_eq!(say(&mut self.said_on[0], "FLUSHALL"), "OK");
        let line = format!(
            "CONFIG SET rlock.accept yes rlock.max-waiters {} rlock.max-waiters-per-key {} rlock.grant-confirm-ms {} \
             rlock.foreign-turn-grants {} rlock.foreign-turn-ms {} rlock.foreign-window-ms {} rlock.fair-turn-ms {}",
            options.max_waiters,
            options.max_waiters_per_key,
            options.grant_confirm,
            options.turn_grants,
            options.turn_ms,
            options.window,
            options.fair_turn,
        );
        assert_eq!(say(&mut self.said_on[0], &line), "OK");
        self.listen(false);
        (0..CHANNELS.len()).for_each(|channel| self.hear(Channel(channel), true));
        self.start += 1 << 32;
        self.go_to(run);
    }

    /// Sets the clocks, and returns once everything that is due by them is done: the reply to a PING is written in the
    /// cycle after the one in which the timer fires.
    pub(crate) fn go_to(&mut self, run: &Run) {
        let (wall, clock) = run.clocks();
        let clocks = (wall, self.start + clock.cast_signed());
        if std::mem::replace(&mut self.clocks, clocks) != clocks {
            self.server.set_clocks(clocks.0, clocks.1);
        }
        (0..2).for_each(|_| assert_eq!(say(&mut self.said_on[0], "PING"), "PONG"));
    }

    /// Sends a command, and says the reply. If it blocks, the reply belongs to `call`, and comes later.
    pub(crate) fn send(&mut self, Line { db, words, how }: Line, call: Option<usize>) -> Option<String> {
        match how {
            How::Plain => Some(text(&ask(&mut self.said_on[db], &words))),
            How::InMulti => self.transaction(db, &[words]).pop(),
            How::Blocks => {
                let mut client = self.idle[db].pop().unwrap_or_else(|| connect(&self.server, db));
                let packed = redis::cmd(&words[0]).arg(&words[1..]).get_packed_command();
                client.0.send_packed_command(&packed).expect("the command is sent");
                self.calls.insert(call.unwrap_or(usize::MAX), (db, client));
                call.is_none().then(|| self.reply(usize::MAX))
            }
        }
    }

    /// Sends a command, and kills the client of a call in the same transaction, before its reply is written.
    pub(crate) fn send_and_kill(&mut self, line: Line, call: usize) -> Option<String> {
        let (_, (mut connection, id)) = self.calls.remove(&call).expect("a blocked call");
        let kill = ["CLIENT", "KILL", "ID", &id.to_string()].map(str::to_owned).to_vec();
        let replies = self.transaction(line.db, &[line.words, kill]);
        assert_eq!((replies[1].as_str(), receive(&mut connection).as_str()), ("1", "the connection ended"));
        replies.into_iter().next()
    }

    fn transaction(&mut self, db: usize, lines: &[Vec<String>]) -> Vec<String> {
        let connection = &mut self.said_on[db];
        assert_eq!(say(connection, "MULTI"), "OK");
        lines.iter().for_each(|words| assert_eq!(text(&ask(connection, words)), "QUEUED"));
        let Value::Array(replies) = ask(connection, &["EXEC"]) else { panic!("no replies to EXEC") };
        replies.iter().map(text).collect()
    }

    /// The reply to a blocked call.
    pub(crate) fn reply(&mut self, call: usize) -> String {
        let (db, mut client) = self.calls.remove(&call).expect("a blocked call");
        let reply = receive(&mut client.0);
        self.idle[db].push(client);
        reply
    }

    /// The client of a blocked call disconnects, or is killed.
    pub(crate) fn disconnect(&mut self, call: usize, is_killed: bool) {
        let (_, (mut connection, id)) = self.calls.remove(&call).expect("a blocked call");
        if is_killed {
            assert_eq!(say(&mut self.said_on[0], &format!("CLIENT KILL ID {id}")), "1");
            assert_eq!(receive(&mut connection), "the connection ended");
        }
    }

    /// Subscribes to a channel of ENQUEUE, or ends that.
    pub(crate) fn hear(&mut self, Channel(channel): Channel, is_heard: bool) {
        if std::mem::replace(&mut self.heard[channel], is_heard) != is_heard {
            self.subscribe(&[CHANNELS[channel].to_owned()], is_heard);
        }
    }

    pub(crate) fn is_listened(&self) -> bool {
        self.is_listened
    }

    /// The same for the channels of Redisson clients.
    pub(crate) fn listen(&mut self, listens: bool) {
        let channels = |key: &str| {
            let heads = OWNERS.iter().map(|owner| format!("{}:{owner}", unlock_channel(key)));
            heads.chain([unlock_channel(key), read_write_channel(key)]).collect::<Vec<_>>()
        };
        if std::mem::replace(&mut self.is_listened, listens) != listens {
            self.subscribe(&[channels("a"), channels("b")].concat(), listens);
        }
    }

    fn subscribe(&mut self, channels: &[String], is_heard: bool) {
        let before = self.subscriber.take().expect("a subscriber");
        self.subscriber =
            Some(if is_heard { before.subscribe(channels) } else { before.unsubscribe(channels) });
    }

    /// New messages, each with its channel: those to enqueued waiters, and those to Redisson clients.
    pub(crate) fn messages(&mut self) -> (Messages<Channel>, Messages<String>) {
        let (mut enqueued, mut redisson) = (Vec::new(), Vec::new());
        for (channel, text) in self.subscriber.as_mut().expect("a subscriber").drain() {
            let [channel, text] = [channel, text].map(|bytes| String::from_utf8(bytes).expect("ASCII"));
            match CHANNELS.iter().position(|name| *name == channel) {
                Some(number) => enqueued.push((Channel(number), text)),
                None => redisson.push((channel, text)),
            }
        }
        (enqueued, redisson)
    }

    /// What belongs to each lock, with its queue where `asks` says so.
    pub(crate) fn look(&mut self, asks: [bool; LOCKS.len()]) -> Vec<Seen> {
        let asks = asks.map(|asks| u8::from(asks).to_string());
        let words = ["EVAL", LOOK, "0"].into_iter().chain(asks.iter().map(String::as_str));
        let seen = ask(&mut self.said_on[0], &words.collect::<Vec<_>>());
        let texts: Vec<String> = redis::from_redis_value(seen).expect("texts");
        let looks = texts.chunks_exact(5).map(|texts| {
            let [key, leases, list, token, queue] = texts.to_vec().try_into().expect("five");
            Seen { key, leases, list, token, queue: self.queue(&queue) }
        });
        looks.collect()
    }

    /// The native waiters, with the numbers of their calls.
    fn queue(&self, entries: &str) -> Vec<String> {
        let call = |id: &str| self.calls.iter().find(|(_, (_, client))| client.1.to_string() == id);
        let entry = |entry: &str| match entry.split(' ').collect::<Vec<_>>()[..] {
            [owner, mode, "block", left, id] => Some(format!(
                "{owner} {mode} block {} {left}",
                call(id).map_or(&usize::MAX, |(call, _)| call)
            )),
            [owner, mode, "enqueue", left, _] => Some(format!("{owner} {mode} enqueue {left}")),
            _ => None,
        };
        entries.split(',').filter_map(entry).collect()
    }

    /// The histories are over: each kind of event has happened, and nothing is left.
    pub(crate) fn end(mut self) {
        let count = |name| rlock_testkit::commands::counter(&self.server, name);
        assert_eq!((count("waiters"), count("panics"), count("replication_failures")), (0, 0, 0));
        let happened =
            ["hand_offs", "timeouts", "cancelled", "waiters_gone", "revokes", "unconfirmed_grants"];
        for name in happened.into_iter().chain(["found_expired", "found_deleted", "foreign_turns"]) {
            assert!(count(name) > 0, "rlock_{name} counts nothing");
        }
        assert!(is_at_rest(&mut self.said_on[0]));
    }
}

/// The channel of the unlock messages of plain locks.
pub(crate) fn unlock_channel(key: &str) -> String {
    format!("redisson_lock__channel:{{{key}}}")
}

/// The same of read/write locks.
pub(crate) fn read_write_channel(key: &str) -> String {
    format!("redisson_rwlock:{{{key}}}")
}

/// The database and the key of a lock.
pub(crate) fn place(lock: Lock) -> (usize, &'static str) {
    let (db, key) = LOCKS[lock.0];
    (usize::try_from(db).expect("a database"), key)
}

fn connect(server: &TestServer, db: usize) -> Client {
    let mut connection = server.connect();
    assert_eq!(say(&mut connection, &format!("SELECT {db}")), "OK");
    let id = number(&mut connection, "CLIENT ID");
    (connection, id)
}

fn receive(connection: &mut Connection) -> String {
    let outcome: RedisResult<Value> = connection.recv_response();
    match outcome {
        Ok(value) => text(&value),
        Err(error) => match error.code() {
            Some(code) => format!("!{code} {}", error.detail().unwrap_or_default()),
            None if error.is_timeout() => "no reply".into(),
            None => "the connection ended".into(),
        },
    }
}
