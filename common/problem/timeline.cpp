// Keeps the spans of a process and writes them as Chrome trace JSON, all processes into one file.
#include <truestep/problem/timeline.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#ifdef TRUESTEP_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#include <truestep/problem/error.hpp>

namespace truestep::problem {

namespace {

using Clock = std::chrono::steady_clock;

struct Event {
    std::string_view name;
    Clock::time_point begin;
    Clock::time_point end;
    std::uint64_t bytes;
    int awaited;
};

/// The spans of one rank's thread. A later thread of the rank takes over the lane of one that ended,
/// so a run that starts many threads has few lanes, and spans of a lane nest.
struct Lane {
    int rank = 0;
    std::size_t number = 0;
    bool in_use = true;
    std::size_t dropped = 0;
    std::vector<Event> events{};
    std::vector<Event> open{}; ///< begun and not ended; a hang is in them
};

constexpr std::size_t most_events = 1 << 20; ///< of a lane: some 50 MiB

struct Process {
    std::mutex mutex;
    std::vector<std::unique_ptr<Lane>> lanes;
    std::map<int, std::size_t> lanes_of;
    std::string path;
    bool empties = false;       ///< the file, before its first span
    std::size_t first_lane = 0; ///< apart from those of other processes that run for the same rank
};

/// It is never destroyed, because threads may end after static objects.
Process& process() {
    static auto* const the_only = new Process; // NOLINT(cppcoreguidelines-owning-memory)
    return *the_only;
}

Lane& lane_for(int rank) {
    Process& mine = process();
    const std::lock_guard lock(mine.mutex);
    for (const auto& lane : mine.lanes)
        if (lane->rank == rank && !lane->in_use) {
            lane->in_use = true;
            return *lane;
        }
    return *mine.lanes.emplace_back(
        std::make_unique<Lane>(Lane{.rank = rank, .number = mine.lanes_of[rank]++}));
}

/// The lane that the thread uses now. A thread may act for one rank after another.
class OwnLane {
  public:
    OwnLane() = default;
    OwnLane(const OwnLane&) = delete;
    OwnLane& operator=(const OwnLane&) = delete;
    ~OwnLane() { give_back(); }

    Lane& of(int rank) {
        if (lane_ == nullptr || lane_->rank != rank) {
            give_back();
            lane_ = &lane_for(rank);
        }
        return *lane_;
    }
    [[nodiscard]] bool is(const Lane& lane) const { return lane_ == &lane; }

  private:
    void give_back() {
        if (lane_ == nullptr)
            return;
        const std::lock_guard lock(process().mutex);
        lane_->in_use = false;
        lane_ = nullptr;
    }
    Lane* lane_ = nullptr;
};

thread_local OwnLane own_lane;

void complain(const std::exception& error);
void empty(const std::string& path);

/// Empties the file before a child can have a span: several children would empty it one after the other.
void empty_once() {
    if (std::exchange(process().empties, false))
        empty(process().path);
}

void lock_before_fork() {
    process().mutex.lock();
    try {
        if (Timeline::is_on())
            empty_once();
    } catch (const std::exception& error) {
        complain(error);
    }
}
void unlock_after_fork() {
    process().mutex.unlock();
}
/// The child begins without the parent's spans, which the parent writes, and without its other threads.
void begin_in_child() {
    for (const auto& lane : process().lanes) {
        lane->events.clear();
        lane->open.clear();
        lane->dropped = 0;
        lane->in_use = own_lane.is(*lane);
    }
    constexpr std::size_t most_lanes = 1000; // of a rank
    process().first_lane = static_cast<std::size_t>(getpid()) * most_lanes;
    process().mutex.unlock();
}

/// Ranks on other machines have other steady clocks; the clocks of the day agree within what NTP does.
/// Perfetto reads times as doubles: since 1970 they would be rounded to a quarter of a microsecond, and
/// it drops a span that then overlaps its neighbour. So time begins with the week.
double microseconds(Clock::time_point time) {
    static const auto day = std::chrono::system_clock::now().time_since_epoch() % std::chrono::weeks(1);
    static const auto start = Clock::now();
    return std::chrono::duration<double, std::micro>(day + (time - start)).count();
}

double duration(const Event& event) {
    return std::chrono::duration<double, std::micro>(event.end - event.begin).count();
}

std::string json(const Lane& lane) {
    std::string text;
    std::array<char, 256> line{};
    const std::size_t number = process().first_lane + lane.number;
    const auto add = [&](int length) {
        text += (text.empty() ? "" : ",\n") +
                std::string(line.data(), std::min(static_cast<std::size_t>(length), line.size() - 1));
    };
    if (lane.number == 0)
        add(std::snprintf(line.data(), line.size(),
                          R"({"name":"process_name","ph":"M","pid":%d,"tid":0,"args":{"name":"rank %d"}})",
                          lane.rank, lane.rank));
    std::vector<Event> all = lane.events;
    for (Event event : lane.open) {
        event.end = Clock::now();
        all.push_back(event);
    }
    for (const Event& event : all) {
        std::string more;
        if (event.bytes > 0)
            more += R"("bytes":)" + std::to_string(event.bytes);
        if (event.awaited != Span::none)
            more += (more.empty() ? "" : ",") + (R"("waits for rank":)" + std::to_string(event.awaited));
        add(std::snprintf(line.data(), line.size(),
                          R"({"name":"%.*s","ph":"X","pid":%d,"tid":%zu,"ts":%.3f,"dur":%.3f,"args":{%s}})",
                          static_cast<int>(event.name.size()), event.name.data(), lane.rank, number,
                          microseconds(event.begin), duration(event), more.c_str()));
    }
    if (lane.dropped > 0)
        add(std::snprintf(line.data(), line.size(),
                          R"({"name":"%zu spans more","ph":"i","s":"t","pid":%d,"tid":%zu,"ts":%.3f})",
                          lane.dropped, lane.rank, number, microseconds(lane.events.back().end)));
    return text;
}

/// Any launcher's first rank; a process without a launcher is one, too.
bool is_first_rank() {
    constexpr std::array<const char*, 4> launchers{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
                                                   "RANK"};
    for (const char* variable : launchers)
        if (const char* rank = std::getenv(variable); rank != nullptr)
            return std::string_view(rank) == "0";
    return true;
}

/// An open file that no other process changes meanwhile.
class LockedFile {
  public:
    explicit LockedFile(const std::string& path)
        : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) { // NOLINT: the interface of open
        if (file_ < 0)
            throw Error("cannot write the timeline " + path + "; name a file in a folder that exists");
        while (flock(file_, LOCK_EX) != 0)
            if (errno != EINTR) {
                close(file_);
                throw Error("cannot lock the timeline " + path + "; name a file on a local disk");
            }
    }
    LockedFile(const LockedFile&) = delete;
    LockedFile& operator=(const LockedFile&) = delete;
    ~LockedFile() { close(file_); }

    [[nodiscard]] int descriptor() const { return file_; }

  private:
    int file_;
};

/// A JSON list stays one when more is added: its last bracket moves.
void append(const std::string& path, const std::string& events) {
    const LockedFile file(path);
    constexpr std::string_view end = "\n]\n";
    const off_t size = lseek(file.descriptor(), 0, SEEK_END);
    const bool first = size == 0;
    std::array<char, end.size()> last{};
    if (!first &&
        (size < static_cast<off_t>(end.size()) ||
         pread(file.descriptor(), last.data(), last.size(), size - static_cast<off_t>(end.size())) < 0 ||
         std::string_view(last.data(), last.size()) != end))
        throw Error(path + " is not a timeline; name another file");
    const std::string text = (first ? "[\n" : ",\n") + events + std::string(end);
    off_t at = first ? 0 : size - static_cast<off_t>(end.size());
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t wrote = pwrite(file.descriptor(), text.data() + done, text.size() - done, at);
        if (wrote <= 0)
            throw Error("cannot write the timeline " + path);
        done += static_cast<std::size_t>(wrote);
        at += wrote;
    }
}

void empty(const std::string& path) {
    const LockedFile file(path);
    if (ftruncate(file.descriptor(), 0) != 0)
        throw Error("cannot empty the timeline " + path);
}

void complain(const std::exception& error) {
    std::fprintf(stderr, "truestep: %s\n", error.what());
}

void begin_to_record(const std::string& path) {
    process().path = path;
    static_cast<void>(microseconds(Clock::now())); // both clocks are read now
    // A fork while another thread holds the mutex would leave it locked in the child for ever.
    static const bool registered = std::atexit(Timeline::write) == 0 &&
                                   pthread_atfork(lock_before_fork, unlock_after_fork, begin_in_child) == 0;
    static_cast<void>(registered);
}

} // namespace

void Timeline::start(const std::string& path) {
    if (is_first_rank())
        empty(path);
    else
        static_cast<void>(LockedFile(path)); // whether it can be written
    begin_to_record(path);
    on_ = true;
}

void Timeline::start_with_first_span(const std::string& path) {
    static_cast<void>(LockedFile(path));
    begin_to_record(path);
    process().empties = is_first_rank();
    on_ = true;
}

void Timeline::write() noexcept {
    if (!on_)
        return;
    try {
        const std::lock_guard lock(process().mutex);
        std::string events;
        for (const auto& lane : process().lanes) {
            const std::string of_lane = json(*lane);
            events += (events.empty() || of_lane.empty() ? "" : ",\n") + of_lane;
            lane->events.clear();
        }
        on_ = false;
        if (!events.empty())
            append(process().path, events);
    } catch (const std::exception& error) {
        complain(error);
    }
}

std::string Timeline::last_spans(int rank, std::size_t count) {
    if (!on_)
        return {};
    const auto now = Clock::now();
    const std::lock_guard lock(process().mutex);
    std::vector<Event> spans;
    for (const auto& lane : process().lanes)
        if (lane->rank == rank) {
            spans.insert(spans.end(), lane->events.begin(), lane->events.end());
            for (Event event : lane->open) {
                event.end = now;
                spans.push_back(event);
            }
        }
    std::ranges::stable_sort(spans, {}, &Event::end);
    spans.erase(spans.begin(), spans.end() - static_cast<std::ptrdiff_t>(std::min(count, spans.size())));
    std::string text;
    const auto seconds = [](Clock::duration time) {
        std::array<char, 32> digits{};
        std::snprintf(digits.data(), digits.size(), "%.3f s", std::chrono::duration<double>(time).count());
        return std::string(digits.data());
    };
    for (const Event& event : spans)
        text += "    " + std::string(event.name) +
                (event.end == now ? ": for " + seconds(now - event.begin) + " until now\n"
                                  : ": for " + seconds(event.end - event.begin) + ", ended " +
                                        seconds(now - event.end) + " ago\n");
    return text;
}

void Span::begin() {
#ifdef TRUESTEP_NVTX
    nvtxRangePushA(std::string(name_).c_str());
#endif
    begin_ = Clock::now();
    try {
        Lane& lane = own_lane.of(rank_);
        const std::lock_guard lock(process().mutex);
        empty_once();
        lane.open.push_back({name_, begin_, begin_, 0, none});
        lane_ = &lane;
    } catch (const std::exception& error) {
        complain(error);
        on_ = false;
    }
}

void Span::end() noexcept {
    const auto end = Clock::now();
#ifdef TRUESTEP_NVTX
    nvtxRangePop();
#endif
    if (lane_ == nullptr)
        return;
    try {
        auto& lane = *static_cast<Lane*>(lane_);
        const std::lock_guard lock(process().mutex);
        std::erase_if(lane.open,
                      [&](const Event& event) { return event.begin == begin_ && event.name == name_; });
        if (lane.events.size() < most_events)
            lane.events.push_back({name_, begin_, end, bytes_, awaited_});
        else
            ++lane.dropped;
    } catch (const std::exception& error) {
        complain(error);
        on_ = false;
    }
}

namespace {

/// The variable serves libraries and programs without the option, such as Python's optimizers.
const bool asked_by_environment = [] {
    const char* path = std::getenv("TRUESTEP_TIMELINE");
    try {
        if (path != nullptr && *path != '\0')
            Timeline::start_with_first_span(path);
    } catch (const Error& error) {
        complain(error);
    }
    return path != nullptr;
}();

} // namespace

} // namespace truestep::problem
