// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/microsoft/durabletask-go/task"
)

var (
	tries     = map[string]int{}
	triesLock sync.Mutex
	// Where steps are noted before they answer; "" in the process of the cases.
	ledgerPath string
)

type wanted struct {
	Key string
	N   int
}

func plusOne(ctx task.ActivityContext) (any, error) {
	var number int
	err := ctx.GetInput(&number)
	return number + 1, err
}

// Fails until it was called N times for Key.
func failUntil(ctx task.ActivityContext) (any, error) {
	var w wanted
	if err := ctx.GetInput(&w); err != nil {
		return nil, err
	}
	triesLock.Lock()
	defer triesLock.Unlock()
	tries[w.Key]++
	if tries[w.Key] < w.N {
		return nil, fmt.Errorf("try %d", tries[w.Key])
	}
	return tries[w.Key], nil
}

// What ran is known even when the answer, the worker or the server was lost.
func durableStep(ctx task.ActivityContext) (any, error) {
	var name string
	if err := ctx.GetInput(&name); err != nil {
		return nil, err
	}
	ledger, err := os.OpenFile(ledgerPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer ledger.Close()
	_, err = fmt.Fprintln(ledger, name)
	time.Sleep(20 * time.Millisecond)
	return name, err
}

func sequence(ctx *task.OrchestrationContext) (any, error) {
	var steps, number int
	if err := ctx.GetInput(&steps); err != nil {
		return nil, err
	}
	for i := 0; i < steps; i++ {
		call := ctx.CallActivity("plusOne", task.WithActivityInput(number))
		if err := call.Await(&number); err != nil {
			return nil, err
		}
	}
	return number, nil
}

func fanOut(ctx *task.OrchestrationContext) (any, error) {
	var width, sum int
	if err := ctx.GetInput(&width); err != nil {
		return nil, err
	}
	calls := []task.Task{}
	for i := 0; i < width; i++ {
		calls = append(calls, ctx.CallActivity("plusOne", task.WithActivityInput(i)))
	}
	for _, call := range calls {
		var number int
		if err := call.Await(&number); err != nil {
			return nil, err
		}
		sum += number
	}
	return sum, nil
}

func echoing(ctx *task.OrchestrationContext) (any, error) {
	var value any
	err := ctx.GetInput(&value)
	return value, err
}

func sleeping(ctx *task.OrchestrationContext) (any, error) {
	due := ctx.CurrentTimeUtc.Add(time.Second)
	err := ctx.CreateTimer(time.Second).Await(nil)
	return !ctx.CurrentTimeUtc.Before(due), err
}

func collectEvents(ctx *task.OrchestrationContext) (any, error) {
	var n int
	if err := ctx.GetInput(&n); err != nil {
		return nil, err
	}
	got := []int{}
	for len(got) < n {
		var number int
		if err := ctx.WaitForSingleEvent("number", -1).Await(&number); err != nil {
			return nil, err
		}
		got = append(got, number)
	}
	return got, nil
}

func eventOrTimer(ctx *task.OrchestrationContext) (any, error) {
	var seconds, text = 0.0, ""
	if err := ctx.GetInput(&seconds); err != nil {
		return nil, err
	}
	timeout := time.Duration(seconds * float64(time.Second))
	if err := ctx.WaitForSingleEvent("go", timeout).Await(&text); err != nil {
		if errors.Is(err, task.ErrTaskCanceled) {
			return "timer", nil
		}
		return nil, err
	}
	return text, nil
}

func parent(ctx *task.OrchestrationContext) (any, error) {
	var children, sum int
	if err := ctx.GetInput(&children); err != nil {
		return nil, err
	}
	calls := []task.Task{}
	for i := 1; i <= children; i++ {
		calls = append(calls, ctx.CallSubOrchestrator("sequence", task.WithSubOrchestratorInput(i)))
	}
	for _, call := range calls {
		var number int
		if err := call.Await(&number); err != nil {
			return nil, err
		}
		sum += number
	}
	return sum, nil
}

func parentOfWaiting(ctx *task.OrchestrationContext) (any, error) {
	var child string
	if err := ctx.GetInput(&child); err != nil {
		return nil, err
	}
	var got []int
	err := ctx.CallSubOrchestrator("collectEvents", task.WithSubOrchestratorInput(1),
		task.WithSubOrchestrationInstanceID(child)).Await(&got)
	return got, err
}

func failing(*task.OrchestrationContext) (any, error) { return nil, errors.New("no luck") }

func catchesChild(ctx *task.OrchestrationContext) (any, error) {
	err := ctx.CallSubOrchestrator("failing").Await(nil)
	return err != nil, nil
}

func retryPolicy() *task.RetryPolicy {
	return &task.RetryPolicy{MaxAttempts: 3, InitialRetryInterval: 50 * time.Millisecond,
		BackoffCoefficient: 1}
}

func retriesActivity(ctx *task.OrchestrationContext) (any, error) {
	var w wanted
	if err := ctx.GetInput(&w); err != nil {
		return nil, err
	}
	var n int
	err := ctx.CallActivity("failUntil", task.WithActivityInput(w),
		task.WithActivityRetryPolicy(retryPolicy())).Await(&n)
	return n, err
}

func failsUntil(ctx *task.OrchestrationContext) (any, error) {
	var w wanted
	if err := ctx.GetInput(&w); err != nil {
		return nil, err
	}
	var n int
	err := ctx.CallActivity("failUntil", task.WithActivityInput(w)).Await(&n)
	return n, err
}

func retriesChild(ctx *task.OrchestrationContext) (any, error) {
	var w wanted
	if err := ctx.GetInput(&w); err != nil {
		return nil, err
	}
	var n int
	err := ctx.CallSubOrchestrator("failsUntil", task.WithSubOrchestratorInput(w),
		task.WithSubOrchestrationRetryPolicy(retryPolicy())).Await(&n)
	return n, err
}

type generation struct {
	Got []int
	N   int
}

func generations(ctx *task.OrchestrationContext) (any, error) {
	var g generation
	if err := ctx.GetInput(&g); err != nil {
		return nil, err
	}
	var number int
	if err := ctx.WaitForSingleEvent("number", -1).Await(&number); err != nil {
		return nil, err
	}
	g.Got = append(g.Got, number)
	if len(g.Got) == g.N {
		return g.Got, nil
	}
	ctx.ContinueAsNew(g, task.WithKeepUnprocessedEvents())
	return nil, nil
}

func tellsStatus(ctx *task.OrchestrationContext) (any, error) {
	ctx.SetCustomStatus("waiting")
	err := ctx.WaitForSingleEvent("go", -1).Await(nil)
	ctx.SetCustomStatus("done")
	return nil, err
}

type durable struct {
	Key   string
	Steps int
}

func durableSequence(ctx *task.OrchestrationContext) (any, error) {
	var d durable
	if err := ctx.GetInput(&d); err != nil {
		return nil, err
	}
	done := []string{}
	for i := 0; i < d.Steps; i++ {
		var name string
		call := ctx.CallActivity("durableStep",
			task.WithActivityInput(fmt.Sprintf("%s/%d", d.Key, i)))
		if err := call.Await(&name); err != nil {
			return nil, err
		}
		done = append(done, name)
	}
	return done, nil
}

// A timer, an event and a child, for a server that is killed between them.
func durableMix(ctx *task.OrchestrationContext) (any, error) {
	var key string
	if err := ctx.GetInput(&key); err != nil {
		return nil, err
	}
	var first string
	call := ctx.CallActivity("durableStep", task.WithActivityInput(key+"/first"))
	if err := call.Await(&first); err != nil {
		return nil, err
	}
	if err := ctx.CreateTimer(1500 * time.Millisecond).Await(nil); err != nil {
		return nil, err
	}
	var event int
	if err := ctx.WaitForSingleEvent("go", -1).Await(&event); err != nil {
		return nil, err
	}
	var child []string
	err := ctx.CallSubOrchestrator("durableSequence",
		task.WithSubOrchestratorInput(durable{key + "/child", 2})).Await(&child)
	return []any{first, event, child}, err
}

func programs() *task.TaskRegistry {
	r := task.NewTaskRegistry()
	for name, function := range map[string]task.Activity{
		"plusOne": plusOne, "failUntil": failUntil, "durableStep": durableStep,
	} {
		must(r.AddActivityN(name, function))
	}
	for name, function := range map[string]task.Orchestrator{
		"sequence": sequence, "fanOut": fanOut, "echoing": echoing, "sleeping": sleeping,
		"collectEvents": collectEvents, "eventOrTimer": eventOrTimer, "parent": parent,
		"parentOfWaiting": parentOfWaiting, "failing": failing, "catchesChild": catchesChild,
		"retriesActivity": retriesActivity, "failsUntil": failsUntil, "retriesChild": retriesChild,
		"generations": generations, "tellsStatus": tellsStatus,
		"durableSequence": durableSequence, "durableMix": durableMix,
	} {
		must(r.AddOrchestratorN(name, function))
	}
	return r
}
