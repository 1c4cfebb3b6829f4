import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.AbstractPlatformTransactionManager;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionTemplate;
import rlock.client.Client;
import rlock.client.Guard;
import rlock.client.RlockException.Closed;

/** What docs/clients/spring.md and shedlock.md say, with their classes. */
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
      return locked(LOCK);
    }

    boolean locked(String name) {
      return observer.lock(name).locked();
    }

    void end() {
      observer.close();
    }
  }

  /** Beans of the check. */
  @Configuration
  @EnableAutoConfiguration
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
    var context =
        new SpringApplicationBuilder(
                Beans.class,
                Import.class,
                Shipping.class,
                LeaderConfiguration.class,
                SchedulingConfiguration.class,
                Report.class,
                Payments.class,
                Database.class)
            .web(WebApplicationType.NONE)
            .properties("spring.data.redis.url=" + System.getenv("REDIS_URL"))
            .run();
    Database database = context.getBean(Database.class);
    context.getBean(Payments.class).pay("7");
    check(database.heldAtCommit.equals(List.of(true)), "held until after the commit");
    check(!database.locked(), "released after it");
    context.getBean(Inside.class).pay();
    check(database.heldAtCommit.equals(List.of(true, false)), "inside, released before the commit");

    Client client = context.getBean(Client.class);
    context.getBean(Import.class).run();
    context.getBean(Shipping.class).ship("7");
    check(!client.lock("locks:7").locked(), "unlocked by the registry");
    var leader = context.getBean(LockRegistryLeaderInitiator.class);
    for (int i = 0; i < 1000 && !leader.getContext().isLeader(); i++) {
      Thread.sleep(20);
    }
    check(leader.getContext().isLeader(), "leader");
    check(client.lock("locks:reports").locked(), "held by the leader");
    context.getBean(Report.class).write();
    check(client.lock("job-lock:default:report").locked(), "held for lockAtLeastFor");

    Guard held = client.lock(Database.LOCK).acquire();
    held.lost().thenRun(held::releaseAsync); // as work does that ends
    check(database.locked(), "held at the end");
    context.close();
    check(!database.locked(), "released at the end of the context");
    check(!database.locked("locks:reports"), "no leader after it");
    check(database.locked("job-lock:default:report"), "held for lockAtLeastFor after it");
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
