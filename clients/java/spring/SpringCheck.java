import java.util.ArrayList;
import java.util.List;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.AbstractPlatformTransactionManager;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionTemplate;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.RlockException.Closed;

/** What docs/clients/java.md says about Spring, with its classes. */
public class SpringCheck {
  /** A database that notes at each commit whether the lock is held. */
  public static class Database extends AbstractPlatformTransactionManager {
    private static final long serialVersionUID = 1;
    static final String LOCK = "invoice:7";
    final transient List<Boolean> heldAtCommit = new ArrayList<>();
    private final transient Client observer = new Client(System.getenv("REDIS_URL"));

    @Override
    protected Object doGetTransaction() {
      return new Object();
    }

    @Override
    protected void doBegin(Object transaction, TransactionDefinition definition) {
      // Nothing is stored.
    }

    @Override
    protected void doCommit(DefaultTransactionStatus status) {
      heldAtCommit.add(locked());
    }

    @Override
    protected void doRollback(DefaultTransactionStatus status) {
      throw new AssertionError("rolled back");
    }

    boolean locked() {
      return observer.lock(LOCK).locked();
    }

    void end() {
      observer.close();
    }
  }

  /** Beans of the check. */
  @Configuration
  @EnableTransactionManagement(proxyTargetClass = true)
  public static class Beans {
    @Bean
    TransactionTemplate transactions(Database database) {
      return new TransactionTemplate(database);
    }

    @Bean
    Inside inside(Client locks) {
      return new Inside(locks);
    }
  }

  /** The mistake that the page warns of. */
  public static class Inside {
    private final Client locks;

    Inside(Client locks) {
      this.locks = locks;
    }

    @Transactional
    public void pay() throws InterruptedException {
      locks.lock(Database.LOCK).run(held -> held.check());
    }
  }

  public static void main(String[] arguments) throws InterruptedException {
    System.setProperty("spring.data.redis.url", System.getenv("REDIS_URL"));
    var context =
        new AnnotationConfigApplicationContext(
            LockConfiguration.class,
            LockRegistryConfiguration.class,
            Payments.class,
            Database.class,
            Beans.class);
    Database database = context.getBean(Database.class);
    context.getBean(Payments.class).pay("7");
    check(database.heldAtCommit.equals(List.of(true)), "held until after the commit");
    check(!database.locked(), "released after it");
    context.getBean(Inside.class).pay();
    check(database.heldAtCommit.equals(List.of(true, false)), "inside, released before the commit");

    LockRegistry<?> registry = context.getBean(LockRegistry.class);
    registry.executeLocked("7", () -> check(database.locked(), "locked by the registry"));
    check(!database.locked(), "unlocked by the registry");

    Client client = context.getBean(Client.class);
    Guard held = client.lock(Database.LOCK).acquire();
    held.lost().thenRun(held::releaseAsync); // as work does that ends
    check(database.locked(), "held at the end");
    context.close();
    check(!database.locked(), "released at the end of the context");
    try {
      client.lock(Database.LOCK).tryAcquire();
      throw new AssertionError("the client was not closed");
    } catch (Closed expected) {
      System.out.println("Spring: ok");
    }
    database.end();
  }

  private static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError("not " + what);
    }
  }
}
