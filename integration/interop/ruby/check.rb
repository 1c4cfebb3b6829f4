# docs/clients/ruby.md on a real server: hand-off, a wait in vain, renewal, loss, a server that stops, a broken connection, Sidekiq.
require "timeout"
require_relative "page"
require "sidekiq/testing"

URL = ENV.fetch("REDIS_URL")
app = Redis.new(url: URL, reconnect_attempts: 0)
long, short = Locks.new(url: URL), Locks.new(url: URL, lease: 3)

def check(true_, what = "") = true_ || raise("not so: #{what}")

def refused(kind)
  yield
rescue kind
  true
else
  raise "no #{kind}"
end

def eventually(seconds = 10) = Timeout.timeout(seconds) { sleep(0.02) until yield }
waiters = -> { app.call("RLOCK.INFO", "page").each_slice(2).to_h["waiter-count"] }

# Another owner is denied; a repeated command adds no hold.
held = long.acquire("page")
check long.acquire("page").nil? && long.lock("page") { raise } == false, "denied"
check app.call("RLOCK.ACQUIRE", "page", held.owner, 30_000, "HOLDS", 1)[0] == 1, "no hold more"

# Longer than the usual time-out, to the end.
start = Locks.now
check short.acquire("page", wait: 3).nil? && (3...4.5).cover?(Locks.now - start), "waited in vain"

# The release hands the lock to the waiter.
waiter = Thread.new { short.acquire("page", wait: 20) }
eventually { waiters.call == 1 }
check held.release, "released"
other = waiter.value
check other.token > held.token && !other.lost?, "handed over"
refused(LockLost) { held.check }

# Renewals keep it for more than a lease; a forced release is noticed at the next one.
50.times { sleep(0.1) && other.check }
check app.call("RLOCK.FORCERELEASE", "page") == 1
eventually(3) { other.lost? }
check other.release == false, "lost"
refused(LockLost) { long.lock("page") { app.call("RLOCK.FORCERELEASE", "page") } }

# A server that stops: the deadline reports the loss before another owner gets the lock.
held = short.acquire("page")
app.call("CLIENT", "PAUSE", 20_000, "WRITE")
start = Locks.now
eventually { held.lost? }
check((2.4...4.5).cover?(Locks.now - start), "lost in time")
refused(Redis::BaseError) { short.acquire("stops") }
app.call("CLIENT", "UNPAUSE")
check held.release == false && short.acquire("stops", wait: 5).release

# A connection that breaks during a wait is an error, and nobody stays in the queue.
held = long.acquire("page")
waiter = Thread.new { refused(Redis::BaseError) { short.acquire("page", wait: 20) } }
eventually { waiters.call == 1 }
info = app.call("CLIENT", "LIST").lines.find { |line| line.include?("cmd=rlock.acquire") && line.include?("flags=b") }
app.call("CLIENT", "KILL", "ID", info[/id=(\d+)/, 1])
check waiter.value && waiters.call == 0 && held.release && !app.exists?("page")

# Sidekiq: a job that another one keeps out comes back.
Sidekiq::Testing.fake! do
  blocking = long.acquire("report:7")
  Report.new.perform(7)
  check Report.jobs.size == 1, "later"
  blocking.release
  Report.drain
  check Report.jobs.empty?, "done"
end
runs = 0
2.times { once_a_minute("cron") { runs += 1 } }
check runs == 1 && app.pttl("cron") > 40_000
puts "redis-rb #{Redis::VERSION}, Ruby #{RUBY_VERSION}, Sidekiq #{Sidekiq::VERSION}: ok"
