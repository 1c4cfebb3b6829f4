import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Clients that wait for one lock while one of them holds it, each a thread with a mutex of its own. */
final class Crowd {
    private final List<Thread> threads = new ArrayList<>();
    private final CuratorFramework client;
    private final String path;
    private List<long[]> handOffs = new ArrayList<>();
    private int allowed;
    private boolean held;
    private boolean leaving;
    private long released;

    /** Returns when one client holds the lock and the others wait for it. */
    Crowd(CuratorFramework client, int waiters, String path) throws Exception {
        this.client = client;
        this.path = path;
        start();
        synchronized (this) {
            while (!held) {
                wait();
            }
        }
        for (int waiter = 0; waiter < waiters; waiter++) {
            start();
        }
        while (client.getChildren().forPath(path).size() <= waiters) {
            Thread.sleep(10);
        }
    }

    private void start() {
        Thread thread = new Thread(this::work);
        threads.add(thread);
        thread.start();
    }

    private void work() {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        try {
            boolean last = false;
            while (!last) {
                mutex.acquire();
                last = hold(System.nanoTime());
                mutex.release();
            }
        } catch (Exception fault) {
            Worker.fail(fault);
        }
    }

    /** Keeps the lock for a millisecond and until it may be released. */
    private boolean hold(long acquired) throws InterruptedException {
        synchronized (this) {
            if (held) {
                throw new IllegalStateException("two hold the lock at a time");
            }
            held = true;
            if (released != 0) {
                handOffs.add(new long[] {released, acquired});
            }
            notifyAll();
        }
        Thread.sleep(leaving() ? 0 : 1);
        synchronized (this) {
            while (allowed == 0 && !leaving) {
                wait();
            }
            allowed--;
            held = false;
            released = System.nanoTime();
            return leaving;
        }
    }

    private synchronized boolean leaving() {
        return leaving;
    }

    /** Lets the lock change hands, and returns when each release and the acquisition after it happened. */
    List<long[]> handOff(int count) throws InterruptedException {
        synchronized (this) {
            handOffs = new ArrayList<>();
            allowed = count;
            notifyAll();
            while (handOffs.size() < count) {
                wait();
            }
        }
        Thread.sleep(20);
        return handOffs;
    }

    /** Lets each client have the lock once more. */
    void leave() throws InterruptedException {
        synchronized (this) {
            leaving = true;
            notifyAll();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
