// Package rlock has distributed locks on Redis and Valkey servers with the rlock module: a lock has at most one holder at a
// time, on any process or machine.
//
// The server queues the waiters. The client renews held locks every third of their lease, and tells you when one is lost.
package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Version is the version of this package.
const Version = "0.1.0"

const longestTime time.Duration = 1 << 43 * time.Millisecond

var started = time.Now()

// Options are the settings of a client; each has a default.
type Options struct {
	// Name names the client in owners and CLIENT LIST; the program's name by default.
	Name string
	// Lease is how long a lock outlives its process: 30 s by default, from 100 ms. The client renews it every third of the
	// lease. To survive a fail-over, the lease must be longer than one and a half times the fail-over.
	Lease time.Duration
	// Wait is the limit of Acquire and Run; none by default.
	Wait time.Duration
	// SessionGrace is how long a lock outlives the connection of its process, from 100 ms. Without it, and where the server does not
	// notice the end of the connection, only the lease counts.
	SessionGrace time.Duration
	// ResponseTimeout is the limit of each call but Acquire and Run, and of one answer of the server: 2 s by default. A connection
	// without an answer to a lock's command is replaced after a sixth of the lease already, if that is shorter.
	ResponseTimeout time.Duration
	// OnEvent receives what happens to locks and connections, one event after the other. It must not close the client.
	OnEvent func(Event)
}

// Client makes locks on one server or cluster. Use one per process. Its methods may be used by many goroutines at a time.
type Client struct {
	endpoint *endpoint
	called   string // in CLIENT LIST
	identity string
	defaults order
	response time.Duration // for one answer
	patience time.Duration // for a call that does not wait for a lock
	onEvent  func(Event)

	emptied context.Context // once a closing client has no acquisition left
	empty   context.CancelFunc
	ended   context.Context // once the client is closed
	end     context.CancelFunc
	running sync.WaitGroup
	allTold chan struct{}
	settled chan error // the outcome of the first attempt to connect

	mutex        sync.Mutex // for all that follows, the links and the acquisitions
	acquisitions map[claim]*acquisition
	named        map[claim]*acquisition // that have guards, lost or not, by owners of the caller's
	graces       map[time.Duration]int  // how many sessions there are of each
	links        map[string]*link       // for commands, by address
	slots        map[int]string         // of a cluster: the addresses that are known
	surveyed     time.Duration          // when a node of the cluster was asked for them
	blind        bool                   // this user may not ask for them
	kept         []claim                // of the last holds that outlast their release
	sentinels    sentinels
	unreadable   bool // this user may not ask for the lease of a holder
	failures     int  // to connect
	numbers      int  // of owners
	closing      bool
	lostAt       time.Duration // when the first link was lost; 0 while all are up
	events       chan Event
}

// Connect connects by a URL, and fails if the server cannot be reached, refuses the user, or has no rlock module:
//
//   - redis://[user:password@]host[:port][/database], and rediss:// for TLS;
//   - unix://[user:password@]/path[?db=database];
//   - redis+sentinel://[user:password@]host[:port],…/service[/database]: the primary that the Sentinels name;
//   - redis+cluster://[user:password@]host[:port],…: a cluster.
//
// URLs may have valkey for redis. The limits are ctx, and for the first attempt to connect ResponseTimeout, but at least 1 s.
func Connect(ctx context.Context, url string, options Options) (*Client, error) {
	endpoint, err := endpointOfURL(url)
	return connect(ctx, endpoint, err, options)
}

// ConnectLike connects with the settings of your redis.Client or redis.ClusterClient, by new connections. The limits are
// those of Connect.
func ConnectLike(ctx context.Context, app redis.UniversalClient, options Options) (*Client, error) {
	endpoint, err := endpointLike(app)
	return connect(ctx, endpoint, err, options)
}

// ConnectSentinel connects to the primary that the Sentinels name, and follows it. The limits are those of Connect.
func ConnectSentinel(ctx context.Context, failover *redis.FailoverOptions, options Options) (*Client, error) {
	endpoint, err := endpointBySentinels(failover)
	return connect(ctx, endpoint, err, options)
}

func connect(ctx context.Context, endpoint *endpoint, err error, options Options) (*Client, error) {
	if err != nil {
		return nil, err
	}
	c, err := newClient(endpoint, options)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-c.settled:
	case <-ctx.Done():
		c.do(func() { err = c.linkFor("").overdue(ctx) })
	}
	if err == nil {
		// Without arguments it does nothing.
		_, err = c.request(ctx, "", "RLOCK.RENEW")
		if errors.Is(err, ErrRefused) || errors.Is(err, ErrPermission) {
			err = nil
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func newClient(endpoint *endpoint, options Options) (*Client, error) {
	lease := cmp.Or(options.Lease, 30*time.Second)
	patience := cmp.Or(options.ResponseTimeout, 2*time.Second)
	response := cmp.Or(options.ResponseTimeout, min(max(lease/6, 50*time.Millisecond), patience))
	defaults := order{plan: plan{lease: lease, wait: cmp.Or(options.Wait, forever), grace: options.SessionGrace, renew: true}}
	if err := errors.Join(defaults.check(), checkTime("a response timeout", response, time.Millisecond)); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	name := cmp.Or(options.Name, strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"))
	c := &Client{
		endpoint:     endpoint,
		called:       fmt.Sprintf("%s@%s:%d", plain(name, "rlock-client"), plain(host, "localhost"), os.Getpid()),
		defaults:     defaults,
		response:     response,
		patience:     patience,
		onEvent:      options.OnEvent,
		allTold:      make(chan struct{}),
		settled:      make(chan error, 1),
		acquisitions: map[claim]*acquisition{},
		named:        map[claim]*acquisition{},
		graces:       map[time.Duration]int{},
		links:        map[string]*link{},
		slots:        map[int]string{},
	}
	if c.onEvent != nil {
		c.events = make(chan Event, mostEvents)
	}
	c.identity = c.called + ":" + random()
	c.emptied, c.empty = context.WithCancel(context.Background())
	c.ended, c.end = context.WithCancel(context.Background())
	go c.tellEvents()
	c.do(func() {
		c.know(endpoint.sentinels...)
		c.linkFor("")
	})
	return c, nil
}

var special = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// plain is at most 64 characters without a meaning in commands, channels and owners.
func plain(word, otherwise string) string {
	word = special.ReplaceAllString(strings.TrimSpace(word), "_")
	return cmp.Or(word[:min(len(word), 64)], otherwise)
}

// Identity is how the owners of this client begin: <name>@<host>:<pid>:<random>.
func (c *Client) Identity() string { return c.identity }

// Close is Shutdown with at most 5 seconds for your work, and one ResponseTimeout for the server.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown ends all waits, marks all locks as lost so that their work ends, waits until they are released or ctx is done, and
// closes the connections. The error is ErrUnflushed if not all were released; the others stay held until their lease ends.
func (c *Client) Shutdown(ctx context.Context) error {
	c.do(func() {
		c.closing = true
		// Waiters leave the queue; holders are notified, and release when their work has ended.
		c.each(func(*acquisition) bool { return true }, func(a *acquisition) {
			a.cancel(closed())
			a.feed(func() { a.machine.lose(WhyClosed) })
		})
		if len(c.acquisitions) == 0 {
			c.empty()
		}
	})
	c.awaitReleases(ctx)
	c.end()
	c.running.Wait()
	left := 0
	c.do(func() {
		for _, a := range c.acquisitions {
			if a.machine.heldAt > 0 && !a.machine.answered {
				left++
			}
			a.abandon()
		}
	})
	select {
	case <-c.allTold:
	case <-ctx.Done():
	}
	if left > 0 {
		return unflushed(left)
	}
	return nil
}

// awaitReleases gives the work under the locks until ctx is done, and then the server one ResponseTimeout.
func (c *Client) awaitReleases(ctx context.Context) {
	const pause = 10 * time.Millisecond
	for released := now(); now() < released+c.patience; {
		select {
		case <-c.emptied.Done():
			return
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		c.do(func() {
			for _, a := range c.acquisitions {
				if a.machine.phase == phaseHeld || a.machine.phase == phaseLost {
					released = now()
				}
			}
		})
	}
}

func (c *Client) do(work func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	work()
}

// The caller of the following holds the mutex.

func (c *Client) shortestGrace() time.Duration {
	shortest := forever
	for grace := range c.graces {
		shortest = min(shortest, grace)
	}
	return shortest
}

// each works on those that are held first: their leases are running.
func (c *Client) each(which func(*acquisition) bool, work func(*acquisition)) {
	var held, others []*acquisition
	for _, a := range c.acquisitions {
		if !which(a) {
			continue
		}
		if a.machine.phase == phaseHeld {
			held = append(held, a)
		} else {
			others = append(others, a)
		}
	}
	for _, a := range append(held, others...) {
		work(a)
	}
}

func (c *Client) enter(a *acquisition) {
	c.acquisitions[a.order.claim()] = a
	if grace := a.order.grace; grace > 0 {
		c.graces[grace]++
		if c.graces[grace] == 1 {
			for _, link := range c.links {
				link.beat()
			}
		}
	}
}

func (c *Client) leave(a *acquisition) {
	if c.acquisitions[a.order.claim()] != a {
		return
	}
	delete(c.acquisitions, a.order.claim())
	if grace := a.order.grace; grace > 0 {
		c.graces[grace]--
		if c.graces[grace] == 0 {
			delete(c.graces, grace)
		}
	}
	if c.closing && len(c.acquisitions) == 0 {
		c.empty()
	}
}
