#pragma once

// The devices behind the functions of the CUDA runtime: their memory, modules, and streams whose
// work is done as late as possible.

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include <cuda_runtime_api.h>

#include <truestep/simulator/machine.hpp>

#include "address_space.hpp"

namespace truestep::simulator {

/// How often the recording of an event was requested, and which of these requests has been reached.
struct Mark {
    std::uint64_t asked = 0;
    std::uint64_t reached = 0;
};

struct Launch {
    std::shared_ptr<const Kernel> kernel;
    std::uint32_t blocks = 0;
    std::uint32_t threads = 0;
    std::vector<std::uint8_t> parameters;
};
struct Copy {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<const std::vector<std::uint8_t>> staged; ///< what stood in pageable memory at the call
};
struct Fill {
    void* to = nullptr;
    int byte = 0;
    std::size_t bytes = 0;
};
struct Record {
    std::shared_ptr<Mark> mark;
    std::uint64_t number = 0;
};
struct Wait {
    std::shared_ptr<Mark> mark;
    std::uint64_t number = 0;
};
/// Work that starts when several streams have reached it, and then proceeds in small pieces.
class Meeting {
  public:
    Meeting() = default;
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;
    virtual ~Meeting() = default;
    [[nodiscard]] virtual bool can_go_on() const = 0;
    /// Does a piece of it. Returns true when it is over. Throws Fault.
    virtual bool go_on(std::mt19937_64& random) = 0;
    /// Says which participant is missing.
    [[nodiscard]] virtual std::string waits_for() const = 0;
};
using Operation = std::variant<Launch, Copy, Fill, Record, Wait, std::shared_ptr<Meeting>>;
using Operations = std::vector<Operation>;

struct Stream {
    int device = 0;
    std::deque<Operation> queue;
    std::mt19937_64 random;      ///< when its work is done
    std::mt19937_64 for_kernels; ///< seeds of its launches, so that the turns of others do not change them
    bool capturing = false;
    bool spoiled = false; ///< the capture
    Operations captured;
    std::thread::id capturer;
    std::uint64_t seen = 0; ///< of the devices' progress, when it last could not go on
    std::chrono::steady_clock::time_point stuck_since;
};

/// A module is read when one of its kernels is first used, or when a program asks for devices.
struct Module {
    const void* fat_binary = nullptr;
    bool read = false;
    Program program;
    std::map<const void*, std::string> names; ///< of kernels, by the host's function

    const Program& get();
};

/// The number of devices.
constexpr int all_devices = 64;
/// The device that this thread has chosen.
int& current_device();
/// NCCL's groups that this thread has begun and not ended.
int& open_groups();

/// All devices of the process. They share one space of addresses, and a failure of one ends all.
class Device {
  public:
    /// The one object of this process. Callers hold its mutex.
    static Device& get();
    std::recursive_mutex mutex;

    AddressSpace addresses;
    std::vector<std::unique_ptr<Module>> modules;

    /// The kernel of this host function; nullptr if there is none. Throws Fault.
    [[nodiscard]] std::shared_ptr<const Kernel> kernel(const void* function);
    /// Reads all modules. A process that asks for devices may fork later, and its children then
    /// need not read them again. A module that cannot be read is reported when a kernel of it is
    /// used.
    void read_modules();

    Stream* make_stream();
    /// Does the stream's work first. Removing the last stream resets the device and clears its
    /// failure.
    void remove_stream(Stream* stream);
    /// Null is the default stream of this thread's device.
    Stream& stream(cudaStream_t handle);
    [[nodiscard]] Stream* captured_by_this_thread();

    void put(Stream& stream, Operation operation);
    /// Does all work of the stream, and the work for which it waits. Other threads run meanwhile if
    /// it waits for theirs.
    void drain(Stream& stream);
    /// Drains all streams of this thread's device.
    void drain_all();
    /// Lets other threads run for a moment. Returns false, after a failure of all devices, if
    /// nothing has progressed within `patience`.
    bool wait_for_others(Stream& stream);
    void note_progress() {
        ++progress_;
        moved_.notify_all();
    }
    [[nodiscard]] std::uint64_t progress() const { return progress_; }
    void pause() { moved_.wait_for(mutex, std::chrono::microseconds(200)); }
    std::chrono::milliseconds patience{20'000};
    /// Does one piece of work, of this stream if possible, and sometimes of another stream.
    bool do_one(Stream* preferred);

    /// The failure, if any; as on a device, all later calls fail, too.
    [[nodiscard]] cudaError_t failed() const { return failed_; }
    [[nodiscard]] const std::string& why() const { return why_; }
    void fail(cudaError_t error, const std::string& why);

  private:
    Device() = default;
    /// Returns false if the operation is not finished.
    bool perform(Stream& stream, const Operation& operation);
    void copy(const Copy& copy);
    [[nodiscard]] std::string what_is_missing() const;

    Machine machine_;
    std::set<Stream*> streams_;
    std::array<std::unique_ptr<Stream>, all_devices> defaults_;
    std::condition_variable_any moved_;
    std::uint64_t progress_ = 0;
    cudaError_t failed_ = cudaSuccess;
    std::string why_;

  public:
    Memory& memory() { return machine_.memory(); }
};

/// Sets the schedule of the streams and communicators that this thread makes from now on.
void set_schedule(std::uint64_t seed);
/// A new seed for each of them.
std::uint64_t next_seed();

} // namespace truestep::simulator
