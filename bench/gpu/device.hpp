#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/algorithms.hpp"

// The device functions that measurements need. device.cpp implements them with CUDA.
// tests/host_device.cpp implements them in the host's memory, so that measuring can be tested
// without a device.

namespace truestep::gpu::bench {

/// Runs Fill, Read, AdamS or AdamW on a stream.
template <class Algorithm>
void run_blocks(Index blocks, const typename Algorithm::Arguments& arguments, void* stream);

class Stream {
  public:
    explicit Stream(int device);
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    /// The underlying cudaStream_t.
    [[nodiscard]] void* handle() const { return stream_; }
    void wait() const;
    void copy(void* to, const void* from, std::size_t bytes) const;
    void clear(float* values, Index size) const;
    template <class Algorithm>
    void run(Index size, const typename Algorithm::Arguments& arguments) const {
        run_blocks<Algorithm>((size + tile - 1) / tile, arguments, stream_);
    }
    /// Random values, different for each seed.
    void fill(float* values, std::uint64_t seed, Index size) const {
        run<Fill>(size, {seed, size, values});
    }

  private:
    void* stream_ = nullptr;
};

class Floats {
  public:
    explicit Floats(Index size);
    Floats(Floats&& other) noexcept : values_(std::exchange(other.values_, nullptr)) {}
    Floats(const Floats&) = delete;
    Floats& operator=(const Floats&) = delete;
    Floats& operator=(Floats&&) = delete;
    ~Floats();

    [[nodiscard]] float* data() const { return values_; }

  private:
    float* values_ = nullptr;
};

/// Times work on the stream by events. A sample is the sum of the intervals between begin or
/// resume, and pause or end. The stream is blocked at the begin, so that the host is ahead of it
/// when the work begins. The times therefore cover the device's work, not the host's launches.
class Timer {
  public:
    Timer(const Stream& stream, int device);
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer();

    /// `into` has to live until collect().
    void begin(std::vector<double>& into);
    void pause() { record(); }
    void resume() { record(); }
    void end() { record(); }
    template <class Work>
    void time(std::vector<double>& into, const Work& work) {
        begin(into);
        work();
        end();
    }
    /// Waits, and appends the seconds of all samples to their vectors.
    void collect();

  private:
    struct Sample {
        std::vector<double>* into;
        std::size_t first;
        std::size_t last;
    };
    struct Clock;

    void record();

    const Stream& stream_;
    std::unique_ptr<Clock> clock_;
    std::vector<Sample> samples_;
};

[[nodiscard]] std::size_t free_memory();
[[nodiscard]] std::size_t cache_bytes(int device);
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(int device);

} // namespace truestep::gpu::bench
