// Collects what each rank does and waits for, and when, for a timeline that Perfetto opens.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace truestep::problem {

/// The process's timeline. It is off until start(), or if TRUESTEP_TIMELINE names a file. At its end
/// each process adds its spans to the file, so ranks of a job share one without any exchange.
class Timeline {
  public:
    [[nodiscard]] static bool is_on() { return on_.load(std::memory_order_relaxed); }

    /// Empties the file on the job's first rank, and refuses one that cannot be written.
    static void start(const std::string& path);
    /// The same, but a process that has no span leaves the file as it is.
    static void start_with_first_span(const std::string& path);

    /// Adds the spans so far to the file. A process that ends in another way than by exit() calls it.
    static void write() noexcept;

    /// The newest spans of a rank, those that have not ended among them, one line each. Empty while the
    /// timeline is off.
    [[nodiscard]] static std::string last_spans(int rank, std::size_t count);

  private:
    friend class Span;
    inline static std::atomic<bool> on_{false};
};

/// Adds `--timeline FILE` to the options of a program or of a command: a CLI::App.
template <class App>
void add_timeline_option(App& app) {
    app.template add_option_function<std::string>(
        "--timeline", Timeline::start,
        "write what each rank does and waits for to this file, as Chrome trace JSON, which Perfetto opens");
}

/// One span of a rank: from here to the end of the block. While the timeline is off it costs a few stores,
/// so that a crash can say where it was. The name has to outlive the process's timeline: it is a literal.
class Span {
  public:
    static constexpr int none = -1;

    Span(std::string_view name, int rank)
        : on_(Timeline::is_on()), rank_(rank), name_(name), around_(std::exchange(innermost_, this)) {
        if (on_) [[unlikely]]
            begin();
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() {
        innermost_ = around_;
        if (on_) [[unlikely]]
            end();
    }

    /// That of this thread, or null. Fibers that take turns on one thread mix theirs up.
    [[nodiscard]] static const Span* innermost() { return innermost_; }
    [[nodiscard]] std::string_view name() const { return name_; }
    [[nodiscard]] int rank() const { return rank_; }

    [[nodiscard]] bool is_on() const { return on_; }
    void set_bytes(std::uint64_t bytes) { bytes_ = bytes; }
    /// The rank for which this one waited.
    void set_awaited(int rank) { awaited_ = rank; }

  private:
    void begin();
    void end() noexcept;

    inline static thread_local const Span* innermost_ = nullptr;

    bool on_;
    int rank_;
    std::string_view name_;
    const Span* around_;
    int awaited_ = none;
    std::uint64_t bytes_ = 0;
    void* lane_ = nullptr; ///< where it is kept while it is open
    std::chrono::steady_clock::time_point begin_;
};

} // namespace truestep::problem
