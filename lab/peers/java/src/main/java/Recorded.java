import java.util.concurrent.locks.Lock;
import org.redisson.api.RTopic;

/** What Redisson does while MONITOR records it. The recording tells the parts apart by the names of the locks. */
final class Recorded {
    /** Long enough for what follows a reply in the background. */
    private static final long PAUSE_MS = 500;

    private Recorded() {
    }

    /** An acquire and a release. */
    static void pair(Lock lock) throws InterruptedException {
        lock.lock();
        lock.unlock();
        Thread.sleep(PAUSE_MS);
    }

    /** One holds the lock, another waits for it and gets it. */
    static void handOff(Lock one, Lock another, RTopic channel) throws InterruptedException {
        one.lock();
        Thread waiter = new Thread(() -> {
            another.lock();
            another.unlock();
        });
        waiter.start();
        while (channel.countSubscribers() == 0) {
            Thread.sleep(10);
        }
        // It tries once more, and then it sleeps.
        Thread.sleep(PAUSE_MS);
        one.unlock();
        waiter.join();
        Thread.sleep(PAUSE_MS);
    }

    /** An acquire and a release while another reader holds the lock. */
    static void pairBeside(Lock one, Lock another) throws InterruptedException {
        Thread reader = new Thread(another::lock);
        reader.start();
        reader.join();
        pair(one);
    }
}
