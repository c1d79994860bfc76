//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// processorTime returns the processor time that all threads of a process have
// used since its start, in the kernel's resolution of nanoseconds. The clock of
// a process is named by the complement of its id (clock_getcpuclockid(3)).
func processorTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED
	var at syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|scheduler), uintptr(unsafe.Pointer(&at)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, errno)
	}
	return time.Duration(at.Nano()), nil
}

// cpuSet is a mask of processors as the kernel takes it.
type cpuSet [16]uint64

func oneCPU(cpu int) (set cpuSet) {
	set[cpu/64] = 1 << (cpu % 64)
	return set
}

// cpus returns the processors that this process may run on.
func cpus() ([]int, error) {
	var set cpuSet
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		return nil, fmt.Errorf("sched_getaffinity: %w", errno)
	}
	var list []int
	for cpu := range len(set) * 64 {
		if set[cpu/64]&(1<<(cpu%64)) != 0 {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// pin binds a thread to one processor; 0 is the calling thread.
func pin(thread, cpu int) error {
	set := oneCPU(cpu)
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(thread), unsafe.Sizeof(set), uintptr(unsafe.Pointer(&set)))
	if errno != 0 {
		return fmt.Errorf("sched_setaffinity of thread %d to processor %d: %w", thread, cpu, errno)
	}
	return nil
}

// pinSelf binds all threads of this process to one processor. Threads that
// start later inherit it.
func pinSelf(cpu int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := pin(id, cpu); err != nil {
			return err
		}
	}
	runtime.GOMAXPROCS(1)
	return nil
}
