import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.Settings;

/** The client of this repository. */
final class OfRlock implements Contender {
    private final RedisURI uri;
    private final Client client;
    /** Shared with the others of this process. */
    private RedisClient driver;

    OfRlock(String url) {
        uri = RedisURI.create(url);
        client = new Client(uri, Settings.defaults());
    }

    private OfRlock(RedisURI uri, RedisClient driver) {
        this.uri = uri;
        client = new Client(uri, Settings.defaults().withDriver(driver));
    }

    @Override
    public Object acquire(String key) throws InterruptedException {
        return client.lock(key).acquire();
    }

    @Override
    public void release(Object held) {
        ((Guard) held).release();
    }

    @Override
    public Contender another() {
        if (driver == null) {
            driver = RedisClient.create();
        }
        return new OfRlock(uri, driver);
    }

    @Override
    public void close() {
        client.close();
    }
}
