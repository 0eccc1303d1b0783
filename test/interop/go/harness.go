// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// Far above what anything takes here, also on a busy machine: a case that reaches it hangs.
const waitMax = 60 * time.Second

// A case is a sentence and what must hold; it fails by a panic.
type testCase struct {
	name string
	run  func()
}

var ids atomic.Int64

// The SDK tells each lost connection; the report is read by people.
type silence struct{}

func (silence) Debug(...any)          {}
func (silence) Debugf(string, ...any) {}
func (silence) Info(...any)           {}
func (silence) Infof(string, ...any)  {}
func (silence) Warn(...any)           {}
func (silence) Warnf(string, ...any)  {}
func (silence) Error(...any)          {}
func (silence) Errorf(string, ...any) {}

func must(err error) {
	if err != nil {
		panic(err.Error())
	}
}

func expect(expected, got any) {
	if !reflect.DeepEqual(expected, got) {
		panic(fmt.Sprintf("expected %v, got %v", expected, got))
	}
}

func newID() api.InstanceID {
	return api.InstanceID(fmt.Sprintf("i-%d-%d", os.Getpid(), ids.Add(1)))
}

// A client and, when it listens, a worker: this SDK has one type for both.
type hub struct {
	*client.TaskHubGrpcClient
	connection *grpc.ClientConn
	cancel     context.CancelFunc
}

// The server tells hubs apart by this header; "" sends none.
func connect(address, name string) *hub {
	with := func(ctx context.Context) context.Context {
		if name == "" {
			return ctx
		}
		return metadata.AppendToOutgoingContext(ctx, "taskhub", name)
	}
	connection, err := grpc.Dial(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, reply any,
			c *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			return invoke(with(ctx), method, request, reply, c, options...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, description *grpc.StreamDesc,
			c *grpc.ClientConn, method string, stream grpc.Streamer,
			options ...grpc.CallOption) (grpc.ClientStream, error) {
			return stream(with(ctx), description, c, method, options...)
		}))
	must(err)
	return &hub{TaskHubGrpcClient: client.NewTaskHubGrpcClient(connection, silence{}),
		connection: connection}
}

func (h *hub) work() *hub {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	must(h.StartWorkItemListener(ctx, programs()))
	return h
}

func (h *hub) close() {
	if h.cancel != nil {
		h.cancel()
	}
	_ = h.connection.Close()
}

func (h *hub) start(name string, input any, options ...api.NewOrchestrationOptions) api.InstanceID {
	id, err := h.ScheduleNewOrchestration(context.Background(), name,
		append(options, api.WithInput(input))...)
	must(err)
	return id
}

func (h *hub) wait(id api.InstanceID) *api.OrchestrationMetadata {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	state, err := h.WaitForOrchestrationCompletion(ctx, id, api.WithFetchPayloads(true))
	must(err)
	return state
}

func (h *hub) state(id api.InstanceID) *api.OrchestrationMetadata {
	state, err := h.FetchOrchestrationMetadata(context.Background(), id, api.WithFetchPayloads(true))
	must(err)
	return state
}

func (h *hub) raise(id api.InstanceID, name string, data any) {
	must(h.RaiseEvent(context.Background(), id, name, api.WithEventPayload(data)))
}

// The output as it was sent, in JSON.
func (h *hub) output(id api.InstanceID) string {
	state := h.wait(id)
	if state.RuntimeStatus != api.RUNTIME_STATUS_COMPLETED {
		panic(fmt.Sprintf("%s: %v %v", id, state.RuntimeStatus, state.FailureDetails))
	}
	return state.SerializedOutput
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	must(err)
	return string(text)
}

func eventually(what string, isTrue func() bool) {
	for deadline := time.Now().Add(waitMax); !isTrue(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic("never: " + what)
		}
	}
}

func runCase(number int, c testCase) (isGood bool) {
	began := time.Now()
	defer func() {
		problem := recover()
		isGood = problem == nil
		if isGood {
			fmt.Printf("ok %d - %s\n", number, c.name)
		} else {
			fmt.Printf("not ok %d - %s\n# %s\n", number, c.name,
				strings.ReplaceAll(fmt.Sprint(problem), "\n", "\n# "))
		}
		fmt.Fprintf(os.Stderr, "%6.2f s  %s\n", time.Since(began).Seconds(), c.name)
	}()
	c.run()
	return
}

// Runs the cases that contain a wanted word, or all; the number of failures.
func report(cases []testCase, wanted []string) int {
	chosen := []testCase{}
	for _, c := range cases {
		isWanted := len(wanted) == 0
		for _, word := range wanted {
			isWanted = isWanted || strings.Contains(c.name, word)
		}
		if isWanted {
			chosen = append(chosen, c)
		}
	}
	fmt.Printf("1..%d\n", len(chosen))
	failed := 0
	for n, c := range chosen {
		if !runCase(n+1, c) {
			failed++
		}
	}
	return failed
}
