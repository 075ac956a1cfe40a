#pragma once

// The devices that the functions of the CUDA runtime are about: their memory, modules, and streams whose
// work is done as late as can be.

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

/// How often an event has been asked to be recorded, and which of these has been reached.
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
/// What other streams have to come to, and what then goes on by bits.
class Meeting {
  public:
    Meeting() = default;
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;
    virtual ~Meeting() = default;
    [[nodiscard]] virtual bool can_go_on() const = 0;
    /// Does a bit of it. True when it is over. Throws Fault.
    virtual bool go_on(std::mt19937_64& random) = 0;
    /// Who has not come to what.
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

/// Modules are read when one of their kernels is first asked for, or when somebody asks for devices.
struct Module {
    const void* fat_binary = nullptr;
    bool read = false;
    Program program;
    std::map<const void*, std::string> names; ///< of kernels, by the host's function

    const Program& get();
};

/// How many devices there are.
constexpr int all_devices = 64;
/// The one that this thread has chosen.
int& current_device();
/// NCCL's groups that this thread has begun and not ended.
int& open_groups();

/// All devices of the process: they have one space of addresses, and what one of them does wrong ends all.
class Device {
  public:
    /// The one object of this process. Whoever uses it holds its mutex.
    static Device& get();
    std::recursive_mutex mutex;

    AddressSpace addresses;
    std::vector<std::unique_ptr<Module>> modules;

    /// Of its kernels by the host's function; nullptr where there is none. Throws Fault.
    [[nodiscard]] std::shared_ptr<const Kernel> kernel(const void* function);
    /// Whoever asks for devices may fork then: what is read before that is read once, and not in each
    /// process. What cannot be read is said where a kernel of it is asked for.
    void read_modules();

    Stream* make_stream();
    /// Does what is in it. With the last one the device is as new: what had failed is over.
    void remove_stream(Stream* stream);
    /// Null is the default stream of this thread's device.
    Stream& stream(cudaStream_t handle);
    [[nodiscard]] Stream* captured_by_this_thread();

    void put(Stream& stream, Operation operation);
    /// Does all that is in the stream, and what it waits for. Other threads go on meanwhile where theirs
    /// have to come.
    void drain(Stream& stream);
    /// Of this thread's device.
    void drain_all();
    /// Lets other threads go on for a moment. False, and all has failed, when nothing has gone on for as
    /// long as patience lasts.
    bool wait_for_others(Stream& stream);
    void note_progress() {
        ++progress_;
        moved_.notify_all();
    }
    [[nodiscard]] std::uint64_t progress() const { return progress_; }
    void pause() { moved_.wait_for(mutex, std::chrono::microseconds(200)); }
    std::chrono::milliseconds patience{20'000};
    /// Does one thing, of the stream if that can be; now and then of another all the same.
    bool do_one(Stream* preferred);

    /// What has gone wrong: as on a device, all that follows fails, too.
    [[nodiscard]] cudaError_t failed() const { return failed_; }
    [[nodiscard]] const std::string& why() const { return why_; }
    void fail(cudaError_t error, const std::string& why);

  private:
    Device() = default;
    /// False when there is more of it to do.
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

/// The schedule of the streams and communicators that this thread makes from now on.
void set_schedule(std::uint64_t seed);
/// Another one for each that is made with it.
std::uint64_t next_seed();

} // namespace truestep::simulator
