// The driver program of the conformance suite: JSON lines in, JSON lines out (clients/conformance/PROTOCOL.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
	rlock "rlock.invalid/client"
)

var capabilities = strings.Fields("read_write downgrade fair fenced reenter owner cancel info force_release hook busy threads session_moves sentinel cluster session semaphore one_trip cluster_waits at_least max_hold detach lock_all")

// fields are those of each request; ?: optional.
var fields = map[string]string{
	"hello":         "protocol:number",
	"connect":       "client:string url:string name?:string lease_ms?:number response_ms?:number",
	"acquire":       "client:string guard:string lock:string kind?:string try?:bool timeout_ms?:number lease_ms?:number fair?:bool fenced?:bool permits?:number session_ms?:number owner?:string at_least_ms?:number max_hold_ms?:number",
	"acquire_all":   "client:string guard:string locks:names try?:bool timeout_ms?:number",
	"cancel":        "acquire:number",
	"check":         "guard:string",
	"reenter":       "guard:string as:string",
	"release":       "guard:string",
	"downgrade":     "guard:string as:string",
	"detach":        "guard:string",
	"adopt":         "client:string guard:string lock:string owner:string kind?:string session_ms?:number",
	"locked":        "client:string lock:string kind?:string",
	"info":          "client:string lock:string kind?:string",
	"force_release": "client:string lock:string kind?:string",
	"busy":          "ms:number",
	"threads":       "",
	"close":         "client:string within_ms?:number",
	"exit":          "",
}

var (
	errCancelled = errors.New("cancelled")
	out          sync.Mutex
	mutex        sync.Mutex // for what follows
	clients      = map[string]*rlock.Client{}
	guards       = map[string]holding{}
	used         = map[string]bool{}
	acquiring    = map[int64]context.CancelCauseFunc{}
)

// holding is one held lock, or several.
type holding interface {
	Check() (time.Duration, error)
	Context(parent context.Context) context.Context
	Release(ctx context.Context) error
}

type (
	request map[string]any
	answer  map[string]any
	invalid string
)

func (text invalid) Error() string { return string(text) }

// stamp is in ns of the boot clock.
func stamp() int64 {
	var at syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 7, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func say(line answer) {
	bytes, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	_, _ = os.Stdout.Write(append(bytes, '\n'))
}

func (r request) text(name string) string {
	text, _ := r[name].(string)
	return text
}

func (r request) number(name string) int64 {
	number, _ := r[name].(float64)
	return int64(number)
}

func (r request) ms(name string) time.Duration {
	return time.Duration(r.number(name)) * time.Millisecond
}

func names(value any) (all []string, ok bool) {
	list, ok := value.([]any)
	for _, each := range list {
		name, isText := each.(string)
		all, ok = append(all, name), ok && isText
	}
	return all, ok
}

func (r request) check() error {
	wanted, known := fields[r.text("do")]
	if !known {
		return invalid("unknown request " + r.text("do"))
	}
	allowed := map[string]bool{"id": true, "do": true}
	for _, field := range strings.Fields(wanted) {
		name, kind, _ := strings.Cut(field, ":")
		name, optional := strings.CutSuffix(name, "?")
		allowed[name] = true
		value, there := r[name]
		_, isText := value.(string)
		_, isNumber := value.(float64)
		_, isBool := value.(bool)
		_, isNames := names(value)
		if right := map[string]bool{"string": isText, "number": isNumber, "bool": isBool, "names": isNames}[kind]; !right && (there || !optional) {
			return invalid(name + " is a " + kind)
		}
	}
	if _, bounded := r["timeout_ms"]; bounded && r["try"] == true {
		return invalid("try and timeout_ms exclude each other")
	}
	for name := range r {
		if !allowed[name] {
			return invalid("unknown field " + name)
		}
	}
	return nil
}

func (r request) client() (*rlock.Client, error) {
	mutex.Lock()
	defer mutex.Unlock()
	if client := clients[r.text("client")]; client != nil {
		return client, nil
	}
	return nil, invalid("no client " + r.text("client"))
}

func fresh(handle string) error {
	mutex.Lock()
	defer mutex.Unlock()
	if used[handle] {
		return invalid("the handle " + handle + " was used before")
	}
	used[handle] = true
	return nil
}

// holding is what a guard holds.
func (r request) holding(end bool) (holding, error) {
	mutex.Lock()
	defer mutex.Unlock()
	found := guards[r.text("guard")]
	if found == nil {
		return nil, invalid("no guard " + r.text("guard"))
	}
	if end {
		delete(guards, r.text("guard"))
	}
	return found, nil
}

// guard is one held lock: its methods are the same for all kinds.
func (r request) guard(end bool) (held *rlock.Held, write *rlock.WriteHeld, err error) {
	found, err := r.holding(end)
	if err != nil {
		return nil, nil, err
	}
	switch found := found.(type) {
	case *rlock.Held:
		return found, nil, nil
	case *rlock.WriteHeld:
		return found.Held, found, nil
	}
	return nil, nil, invalid(r.text("guard") + " is the guard of several locks")
}

func keep(handle string, held holding) {
	mutex.Lock()
	guards[handle] = held
	mutex.Unlock()
	context.AfterFunc(held.Context(context.Background()), func() {
		at := stamp()
		_, err := held.Check()
		var lost *rlock.Error
		if !errors.As(err, &lost) || lost.Why == rlock.WhyReleased {
			return
		}
		say(answer{"event": "lost", "guard": handle, "why": lost.Why, "at": at})
		if lost.Why == rlock.WhyClosed {
			// A closing client waits until the work under its guards has ended: here, with the client.
			_ = held.Release(context.Background())
		}
	})
}

func options(r request) []rlock.Option {
	var all []rlock.Option
	if _, there := r["lease_ms"]; there {
		all = append(all, rlock.Lease(r.ms("lease_ms")), rlock.NoRenewal())
	}
	if _, there := r["session_ms"]; there {
		all = append(all, rlock.SessionGrace(r.ms("session_ms")))
	}
	if owner := r.text("owner"); owner != "" && r["do"] == "acquire" {
		all = append(all, rlock.Owner(owner))
	}
	return append(all, rlock.AtLeast(r.ms("at_least_ms")), rlock.MaxHold(r.ms("max_hold_ms")))
}

func convert[To any](all []rlock.Option, also ...To) []To {
	for _, each := range all {
		also = append(also, each.(To))
	}
	return also
}

// lock is the lock that a request names, or the write lock.
func (r request) lock() (*rlock.Lock, *rlock.WriteLock, error) {
	client, err := r.client()
	if err != nil {
		return nil, nil, err
	}
	name, given := r.text("lock"), options(r)
	switch kind := r.text("kind"); kind {
	case "", "lock":
		var more []rlock.LockOption
		if r["fair"] == true {
			more = append(more, rlock.Fair())
		}
		if r["fenced"] == true {
			more = append(more, rlock.Fenced())
		}
		return client.Lock(name, convert(given, more...)...), nil, nil
	case "read":
		return client.ReadWriteLock(name).Read(given...), nil, nil
	case "permit":
		return client.Semaphore(name, max(1, int(r.number("permits"))), given...), nil, nil
	case "write":
		var more []rlock.WriteOption
		if r["fenced"] == true {
			more = append(more, rlock.Fenced())
		}
		return nil, client.ReadWriteLock(name).Write(convert(given, more...)...), nil
	default:
		return nil, nil, invalid("unknown kind " + kind)
	}
}

// teller are the questions that each kind of lock answers.
type teller interface {
	Locked(ctx context.Context) (bool, error)
	Info(ctx context.Context) (rlock.Info, error)
	ForceRelease(ctx context.Context) (bool, error)
}

func (r request) teller() (teller, error) {
	lock, write, err := r.lock()
	if write != nil {
		return write, err
	}
	return lock, err
}

func connect(ctx context.Context, r request) (answer, error) {
	name := r.text("client")
	if err := fresh(name); err != nil {
		return nil, err
	}
	client, err := rlock.Connect(ctx, r.text("url"), rlock.Options{
		Name: r.text("name"), Lease: r.ms("lease_ms"), ResponseTimeout: r.ms("response_ms"),
		OnEvent: func(event rlock.Event) {
			told := answer{"event": "hook", "client": name, "name": event.Kind, "at": stamp()}
			if event.Kind != rlock.Disconnected && event.Kind != rlock.Reconnected {
				told["lock"] = event.Lock
			}
			say(told)
		},
	})
	if err != nil {
		return nil, err
	}
	mutex.Lock()
	defer mutex.Unlock()
	clients[name] = client
	return answer{"identity": client.Identity()}, nil
}

// cancellable is the context of an acquire: it ends with its cancel, and after its time-out.
func (r request) cancellable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	mutex.Lock()
	acquiring[r.number("id")] = cancel
	mutex.Unlock()
	done := func() {}
	if timeout, bounded := r["timeout_ms"].(float64); bounded {
		ctx, done = context.WithTimeout(ctx, time.Duration(timeout*float64(time.Millisecond)))
	}
	return ctx, func() {
		mutex.Lock()
		defer mutex.Unlock()
		delete(acquiring, r.number("id"))
		done()
		cancel(nil)
	}
}

func acquire(ctx context.Context, r request) (answer, error) {
	lock, write, err := r.lock()
	if err == nil {
		err = fresh(r.text("guard"))
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.cancellable(ctx)
	defer cancel()
	var held *rlock.Held
	var guard holding
	switch {
	case write != nil:
		var writes *rlock.WriteHeld
		if r["try"] == true {
			writes, err = write.TryAcquire(ctx)
		} else {
			writes, err = write.Acquire(ctx)
		}
		if err == nil {
			held, guard = writes.Held, writes
		}
	case r["try"] == true:
		held, err = lock.TryAcquire(ctx)
		guard = held
	default:
		held, err = lock.Acquire(ctx)
		guard = held
	}
	if err != nil {
		return nil, err
	}
	keep(r.text("guard"), guard)
	return answer{"token": held.Token(), "owner": held.Owner()}, nil
}

func acquireAll(ctx context.Context, r request) (answer, error) {
	client, err := r.client()
	if err == nil {
		err = fresh(r.text("guard"))
	}
	if err != nil {
		return nil, err
	}
	all, _ := names(r["locks"])
	ctx, cancel := r.cancellable(ctx)
	defer cancel()
	acquire := client.LockAll(all).Acquire
	if r["try"] == true {
		acquire = client.LockAll(all).TryAcquire
	}
	held, err := acquire(ctx)
	if err == nil {
		keep(r.text("guard"), held)
	}
	return answer{}, err
}

func reenter(ctx context.Context, r request) (answer, error) {
	outer, _, err := r.guard(false)
	if err == nil {
		err = fresh(r.text("as"))
	}
	if err != nil {
		return nil, err
	}
	held, err := outer.Reenter(ctx)
	if err != nil {
		return nil, err
	}
	keep(r.text("as"), held)
	return answer{"token": held.Token()}, nil
}

func downgrade(ctx context.Context, r request) (answer, error) {
	_, write, err := r.guard(false)
	if err == nil && write == nil {
		err = invalid(r.text("guard") + " is not the guard of a write lock")
	}
	if err == nil {
		err = fresh(r.text("as"))
	}
	if err != nil {
		return nil, err
	}
	_, _, _ = r.guard(true)
	held, err := write.Downgrade(ctx)
	if err != nil {
		return nil, err
	}
	keep(r.text("as"), held)
	return answer{}, nil
}

func detach(ctx context.Context, r request) (answer, error) {
	held, _, err := r.guard(true)
	if err != nil {
		return nil, err
	}
	left, err := held.Detach(ctx)
	return answer{"owner": held.Owner(), "left_ms": left.Milliseconds()}, err
}

func adopt(ctx context.Context, r request) (answer, error) {
	lock, write, err := r.lock()
	if err == nil {
		err = fresh(r.text("guard"))
	}
	if err != nil {
		return nil, err
	}
	if write != nil {
		held, err := write.Adopt(ctx, r.text("owner"))
		if err == nil {
			keep(r.text("guard"), held)
		}
		return answer{}, err
	}
	held, err := lock.Adopt(ctx, r.text("owner"))
	if err == nil {
		keep(r.text("guard"), held)
	}
	return answer{}, err
}

func shutdown(ctx context.Context, r request) (answer, error) {
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	if _, there := r["within_ms"]; !there {
		return answer{}, client.Close()
	}
	ctx, done := context.WithTimeout(ctx, r.ms("within_ms"))
	defer done()
	return answer{}, client.Shutdown(ctx)
}

func tell(ctx context.Context, r request) (answer, error) {
	lock, err := r.teller()
	if err != nil {
		return nil, err
	}
	switch r["do"] {
	case "locked":
		value, err := lock.Locked(ctx)
		return answer{"value": value}, err
	case "force_release":
		value, err := lock.ForceRelease(ctx)
		return answer{"value": value}, err
	}
	info, err := lock.Info(ctx)
	return answer{"holders": info.HolderCount, "waiters": info.WaiterCount}, err
}

// busy keeps all that runs the program's goroutines from anything else.
func busy(time time.Duration) {
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Add(1)
		go func() {
			defer all.Done()
			for until := stamp() + int64(time); stamp() < until; {
			}
		}()
	}
	all.Wait()
}

func (r request) serve(ctx context.Context) (answer, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	switch r["do"] {
	case "hello":
		driver := "go-redis " + redis.Version()
		return answer{"protocol": 1, "client": "go", "version": rlock.Version, "driver": driver, "capabilities": capabilities}, nil
	case "connect":
		return connect(ctx, r)
	case "acquire":
		return acquire(ctx, r)
	case "acquire_all":
		return acquireAll(ctx, r)
	case "cancel":
		mutex.Lock()
		defer mutex.Unlock()
		if cancel := acquiring[r.number("acquire")]; cancel != nil {
			cancel(errCancelled)
		}
	case "check":
		held, err := r.holding(false)
		if err != nil {
			return nil, err
		}
		left, err := held.Check()
		return answer{"left_ms": left.Milliseconds()}, err
	case "reenter":
		return reenter(ctx, r)
	case "release":
		held, err := r.holding(true)
		if err != nil {
			return nil, err
		}
		return answer{}, held.Release(ctx)
	case "downgrade":
		return downgrade(ctx, r)
	case "detach":
		return detach(ctx, r)
	case "adopt":
		return adopt(ctx, r)
	case "locked", "info", "force_release":
		return tell(ctx, r)
	case "busy":
		busy(r.ms("ms"))
	case "threads":
		return answer{"count": runtime.NumGoroutine()}, nil
	case "close":
		return shutdown(ctx, r)
	}
	return answer{}, nil
}

// named are the protocol's names of the errors, the first that fits.
var named = []struct {
	err  error
	name string
}{
	{errCancelled, "Cancelled"}, {rlock.ErrLost, "LockLost"}, {rlock.ErrTimeout, "Timeout"}, {rlock.ErrDenied, "Denied"},
	{rlock.ErrOutcomeUnknown, "OutcomeUnknown"}, {rlock.ErrModuleMissing, "ModuleMissing"}, {rlock.ErrUnsupported, "Unsupported"},
	{rlock.ErrPermission, "Permission"}, {rlock.ErrNotALock, "NotALock"}, {rlock.ErrQueueFull, "QueueFull"}, {rlock.ErrRefused, "Refused"},
	{rlock.ErrUnreachable, "Unreachable"}, {rlock.ErrClosed, "Closed"}, {rlock.ErrInvalid, "Invalid"}, {rlock.ErrUnflushed, "Unflushed"},
}

func (r request) answer(from int64) {
	told, err := r.serve(context.Background())
	at := stamp()
	line := answer{"id": r["id"], "ok": err == nil, "from": from, "at": at}
	if err == nil {
		for name, value := range told {
			line[name] = value
		}
	} else {
		name := fmt.Sprintf("no error of this package: %v", err)
		var bad invalid
		if errors.As(err, &bad) {
			name = "Invalid"
		}
		for _, each := range named {
			if errors.Is(err, each.err) {
				name = each.name
				break
			}
		}
		line["error"], line["message"] = name, err.Error()
		var lost *rlock.Error
		if errors.As(err, &lost) && name == "LockLost" {
			line["why"] = lost.Why
		}
		if name == "Timeout" && errors.Is(err, rlock.ErrUnreachable) {
			line["cause"] = "unreachable"
		}
	}
	say(line)
	if r["do"] == "exit" && err == nil {
		os.Exit(0)
	}
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		from := stamp()
		var r request
		if json.Unmarshal(line, &r) != nil || r == nil {
			os.Exit(2)
		}
		go r.answer(from)
	}
}
