// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/microsoft/durabletask-go/api"
)

func flowCases(h *hub) []testCase {
	run := func(name string, input any) string { return h.output(h.start(name, input)) }
	return []testCase{
		{"activities run one after the other", func() { expect("10", run("sequence", 10)) }},
		{"a hundred activities fan out and in", func() { expect("5050", run("fanOut", 100)) }},
		{"inputs and outputs keep their bytes", func() {
			for _, value := range []any{"", "\u4e16\u754c\x00\"\\", 0, false,
				strings.Repeat("x", 1000000)} {
				expect(toJSON(value), run("echoing", value))
			}
		}},
		{"a timer fires when it is due and not before", func() {
			began := time.Now()
			expect("true", run("sleeping", nil))
			expect(true, time.Since(began) >= 990*time.Millisecond)
		}},
		{"an orchestration starts at its scheduled time", func() {
			at := time.Now().Add(1500 * time.Millisecond)
			id := h.start("sequence", 1, api.WithStartTime(at))
			expect(api.RUNTIME_STATUS_PENDING, h.state(id).RuntimeStatus)
			expect("1", h.output(id))
			expect(false, time.Now().Before(at))
		}},
		{"an event wins against a timer, and a timer against no event", func() {
			id := h.start("eventOrTimer", 60.0)
			h.raise(id, "go", "event")
			expect(`"event"`, h.output(id))
			expect(`"timer"`, run("eventOrTimer", 0.1))
		}},
		{"events of one name arrive in the order they were raised", func() {
			id := h.start("collectEvents", 30)
			numbers := []int{}
			for i := 0; i < 30; i++ {
				h.raise(id, "number", i)
				numbers = append(numbers, i)
			}
			expect(toJSON(numbers), h.output(id))
		}},
		{"children answer their parent", func() { expect("55", run("parent", 10)) }},
		{"the failure of a child can be caught", func() { expect("true", run("catchesChild", nil)) }},
		{"a failed orchestration tells its error", func() {
			state := h.wait(h.start("failing", nil))
			expect(api.RUNTIME_STATUS_FAILED, state.RuntimeStatus)
		}},
		{"a failing activity is retried by its policy", func() {
			expect("3", run("retriesActivity", wanted{string(newID()), 3}))
		}},
		{"a retry policy gives up after its last attempt", func() {
			key := string(newID())
			state := h.wait(h.start("retriesActivity", wanted{key, 99}))
			expect(api.RUNTIME_STATUS_FAILED, state.RuntimeStatus)
			expect(3, tries[key])
		}},
		{"a failing child is retried by its policy", func() {
			expect("3", run("retriesChild", wanted{string(newID()), 3}))
		}},
		{"events that are not read yet live through continue-as-new", func() {
			id := h.start("generations", generation{N: 30})
			numbers := []int{}
			for i := 0; i < 30; i++ {
				h.raise(id, "number", i)
				numbers = append(numbers, i)
			}
			expect(toJSON(numbers), h.output(id))
		}},
		{"a custom status is seen while the orchestration runs", func() {
			id := h.start("tellsStatus", nil)
			eventually("the first status", func() bool {
				return strings.Contains(h.state(id).SerializedCustomStatus, "waiting")
			})
			h.raise(id, "go", nil)
			expect(true, strings.Contains(h.wait(id).SerializedCustomStatus, "done"))
		}},
		{"three hundred orchestrations at once", func() {
			started := []api.InstanceID{}
			for i := 0; i < 300; i++ {
				started = append(started, h.start("sequence", 3))
			}
			for _, id := range started {
				expect("3", h.output(id))
			}
		}},
	}
}

func controlCases(h *hub, address string) []testCase {
	ctx := context.Background()
	return []testCase{
		{"a running id is refused, a finished one can be used again", func() {
			id := h.start("collectEvents", 1)
			_, err := h.ScheduleNewOrchestration(ctx, "sequence", api.WithInstanceID(id))
			expect(true, err != nil && strings.Contains(err.Error(), "already exists"))
			h.raise(id, "number", 1)
			h.wait(id)
			h.start("sequence", 2, api.WithInstanceID(id))
			expect("2", h.output(id))
		}},
		{"an unknown instance is not found", func() {
			_, err := h.FetchOrchestrationMetadata(ctx, "nobody")
			expect(true, errors.Is(err, api.ErrInstanceNotFound))
		}},
		{"waiting for a completion that does not come ends in time", func() {
			id := h.start("collectEvents", 1)
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := h.WaitForOrchestrationCompletion(short, id)
			expect(true, err != nil)
			expect(true, errors.Is(short.Err(), context.DeadlineExceeded))
		}},
		{"terminate ends an orchestration with the given output", func() {
			id := h.start("collectEvents", 1)
			must(h.TerminateOrchestration(ctx, id, api.WithOutput("enough")))
			state := h.wait(id)
			expect(api.RUNTIME_STATUS_TERMINATED, state.RuntimeStatus)
			expect(`"enough"`, state.SerializedOutput)
		}},
		{"terminate reaches the children only when it is recursive", func() {
			for _, isRecursive := range []bool{true, false} {
				child := newID()
				id := h.start("parentOfWaiting", string(child))
				eventually("a child", func() bool {
					_, err := h.FetchOrchestrationMetadata(ctx, child)
					return err == nil
				})
				must(h.TerminateOrchestration(ctx, id, api.WithRecursiveTerminate(isRecursive)))
				h.wait(id)
				if isRecursive {
					expect(api.RUNTIME_STATUS_TERMINATED, h.wait(child).RuntimeStatus)
				} else {
					h.raise(child, "number", 1)
					expect("[1]", h.output(child))
				}
			}
		}},
		{"a suspended orchestration takes its events after it is resumed", func() {
			id := h.start("collectEvents", 2)
			_, err := h.WaitForOrchestrationStart(ctx, id)
			must(err)
			must(h.SuspendOrchestration(ctx, id, "a break"))
			eventually("suspended", func() bool {
				return h.state(id).RuntimeStatus == api.RUNTIME_STATUS_SUSPENDED
			})
			h.raise(id, "number", 1)
			h.raise(id, "number", 2)
			time.Sleep(500 * time.Millisecond)
			expect(api.RUNTIME_STATUS_SUSPENDED, h.state(id).RuntimeStatus)
			must(h.ResumeOrchestration(ctx, id, "on"))
			expect("[1,2]", h.output(id))
		}},
		{"purge removes what is finished and nothing else", func() {
			id := h.start("sequence", 1)
			h.wait(id)
			must(h.PurgeOrchestrationState(ctx, id))
			_, err := h.FetchOrchestrationMetadata(ctx, id)
			expect(true, errors.Is(err, api.ErrInstanceNotFound))
			going := h.start("collectEvents", 1)
			expect(true, h.PurgeOrchestrationState(ctx, going) != nil)
			h.raise(going, "number", 1)
			expect("[1]", h.output(going))
		}},
		{"equal ids in two hubs are two instances", func() {
			for steps, name := range []string{"red", "blue"} {
				other := connect(address, name).work()
				other.start("sequence", steps+1, api.WithInstanceID("same"))
				expect(fmt.Sprint(steps+1), other.output("same"))
				other.close()
			}
		}},
	}
}
