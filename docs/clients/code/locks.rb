require "redis"
require "securerandom"
require "socket"

class LockLost < StandardError; end

# Locks with one lease (in seconds). One for each process, made after a fork.
class Locks
  attr_reader :lease

  def initialize(url:, lease: 30, **options)
    @lease = lease
    # Nothing is repeated by the driver. A renewal has time for three tries.
    @options = options.merge(url: url, reconnect_attempts: 0)
    @commands = Redis.new(**@options, timeout: [2, lease / 6.0].min)
  end

  # Waits for up to so many seconds. Nil: another owner holds the lock.
  def acquire(name, wait: 0)
    owner = "ruby@#{Socket.gethostname}:#{Process.pid}:#{SecureRandom.hex(8)}:1"
    words = ["RLOCK.ACQUIRE", name, owner, ms(lease), "HOLDS", 1, "FENCED"]
    finish = Locks.now + wait
    sent = Locks.now
    reply = call(*words)
    while reply.nil? && (left = finish - Locks.now) > 0
      reply = block(left, *words)
      # The reply may be old by now: a renewal dates the start of the lease.
      sent = Locks.now
      reply = nil if reply && !renew(name, owner)
    end
    reply && Held.new(self, name, owner, reply[2], sent)
  rescue Redis::BaseError
    # The server may have granted the lock. If this fails too, the lease ends it.
    begin
      call("RLOCK.CANCEL", name, owner)
      release(name, owner)
    rescue Redis::BaseError
    end
    raise
  end

  # Yields the held lock, and releases it at the end. False: another owner holds the lock.
  def lock(name, wait: 0)
    held = acquire(name, wait: wait) or return false
    begin
      yield held
    rescue Exception
      held.release rescue nil # the error of the block comes first
      raise
    end
    held.release or raise LockLost, "the lock #{name} was lost"
  end

  def renew(name, owner) = call("RLOCK.RENEW", name, owner, ms(lease)) == 1
  def release(name, owner) = !call("RLOCK.RELEASE", name, owner, "ALL").nil?
  def call(*words) = @commands.call(*words)

  # It also counts while the machine is suspended, on Linux.
  def self.now = Process.clock_gettime(Process::CLOCK_BOOTTIME)

  private

  def ms(seconds) = (seconds * 1000).ceil

  # Blocks on a separate connection; its time-out is longer than the wait.
  def block(wait, *words)
    waiting = Redis.new(**@options, timeout: wait + 5)
    waiting.call(*words, "BLOCK", ms(wait))
  ensure
    waiting&.close
  end
end

# A held lock, renewed by a thread until it is released.
class Held
  attr_reader :owner, :token

  def initialize(locks, name, owner, token, sent)
    @locks, @name, @owner, @token = locks, name, owner, token
    extend_from(sent)
    @mutex, @wake, @released = Mutex.new, ConditionVariable.new, false
    @thread = Thread.new { renew }
  end

  # Raises if others may hold the lock; reads the clock and sends nothing.
  def check = lost? && raise(LockLost, "the lock #{@name} is lost")
  def lost? = Locks.now >= @until

  # False: the lock was lost before. After an error the outcome is unknown: let the lease end.
  def release
    @mutex.synchronize { @released = true } && @wake.signal
    @thread.join
    @locks.release(@name, @owner) && !lost?
  ensure
    @until = 0
  end

  private

  # The server's lease began after the command was sent, and its clock may run faster.
  def extend_from(sent)
    @until = sent + @locks.lease * 0.99 - 0.002
  end

  # A failed renewal is tried again soon; a refused one loses the lock, and a lost lock stays lost.
  def renew
    pause = @locks.lease / 3.0
    until released_within?(pause) || lost?
      sent = Locks.now
      renewed = begin
        @locks.renew(@name, @owner)
      rescue Redis::BaseError
        nil
      end
      return if lost?
      return @until = 0 if renewed == false
      extend_from(sent) if renewed
      pause = @locks.lease / (renewed ? 3.0 : 30.0)
    end
  end

  def released_within?(seconds)
    @mutex.synchronize { @released || (@wake.wait(@mutex, seconds) && @released) }
  end
end
