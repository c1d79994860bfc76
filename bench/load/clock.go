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

// processorTime returns the CPU time of all threads of a process since its start, in
// nanoseconds. The clock's id is made from the complement of the process id:
// https://man7.org/linux/man-pages/man3/clock_getcpuclockid.3.html
func processorTime(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED
	var used syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|scheduler), uintptr(unsafe.Pointer(&used)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, errno)
	}
	return time.Duration(used.Nano()), nil
}

// cpuSet is a mask of processors in the kernel's format.
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
