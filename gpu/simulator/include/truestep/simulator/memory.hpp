#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace truestep::simulator {

enum class Act : std::uint8_t { read, write, atomic };

/// The last access to a byte, packed into one number, since each access compares some: the interval
/// of a block between two barriers (numbered by Intervals), a thread of the block, and a flag. 0
/// means no access.
using Touch = std::uint64_t;
constexpr unsigned touch_interval = 12; ///< the number's lowest bit
constexpr Touch touch_flag = Touch{1}
                             << 11U; ///< of a write: it was atomic. Of a read: several blocks' have
constexpr Touch touch_thread = touch_flag - 1; ///< the bits of the thread; all of them: several have

/// Numbers the intervals between two barriers of each block. Later launches have greater numbers. A
/// launch is over before the next begins, so accesses of earlier launches need not be cleared.
class Intervals {
  public:
    void begin_launch() {
        first_ += blocks_.size();
        blocks_.clear();
    }
    /// The block's next interval, as a touch by thread 0.
    [[nodiscard]] Touch begin(std::uint32_t block) {
        blocks_.push_back(block);
        return (first_ + blocks_.size() - 1) << touch_interval;
    }
    [[nodiscard]] bool of_this_launch(Touch touch) const { return touch >> touch_interval >= first_; }
    /// The block of a touch in this launch.
    [[nodiscard]] std::uint32_t block(Touch touch) const {
        return blocks_[(touch >> touch_interval) - first_];
    }

  private:
    std::uint64_t first_ = 1;
    std::vector<std::uint32_t> blocks_; ///< of this launch's
};

/// The last reads and writes of some bytes. Two accesses of one launch race if at least one writes,
/// not both are atomic, and no barrier of their common block separates them. In memory shared
/// between blocks, accesses of different blocks race as well.
class Shadow {
  public:
    /// Notes the read. Returns false, and notes nothing, if it races.
    [[nodiscard]] bool read(Touch now, bool between_blocks, const Intervals& intervals) {
        if (meets(write_, now, between_blocks, intervals))
            return false;
        if (read_ >> touch_interval != now >> touch_interval)
            read_ = now | several_blocks(now, between_blocks, intervals);
        else if ((read_ & touch_thread) != (now & touch_thread))
            read_ |= touch_thread;
        return true;
    }
    [[nodiscard]] bool write(Touch now, Act act, bool between_blocks, const Intervals& intervals) {
        if (writes_race(now, act, between_blocks, intervals) || reads_race(now, between_blocks, intervals))
            return false;
        write_ = act == Act::atomic ? now | touch_flag : now;
        return true;
    }

    struct Race {
        const char* what = "";
        Touch other = 0;
    };
    /// The earlier access with which this one has raced.
    [[nodiscard]] Race race(Touch now, Act act, bool between_blocks, const Intervals& intervals) const {
        if (act != Act::read && !writes_race(now, act, between_blocks, intervals))
            return {"a read", read_};
        return {(write_ & touch_flag) != 0 ? "an atomic operation" : "a write", write_};
    }

  private:
    /// Whether the two accesses, one of which writes, are unordered.
    static bool meets(Touch before, Touch now, bool between_blocks, const Intervals& intervals) {
        if (before >> touch_interval == now >> touch_interval)
            return (before & touch_thread) != (now & touch_thread);
        return between_blocks && intervals.of_this_launch(before) &&
               intervals.block(before) != intervals.block(now);
    }
    [[nodiscard]] bool writes_race(Touch now, Act act, bool between_blocks,
                                   const Intervals& intervals) const {
        const bool both_atomic = act == Act::atomic && (write_ & touch_flag) != 0;
        return !both_atomic && meets(write_, now, between_blocks, intervals);
    }
    [[nodiscard]] bool reads_race(Touch now, bool between_blocks, const Intervals& intervals) const {
        return meets(read_, now, between_blocks, intervals) ||
               (between_blocks && (read_ & touch_flag) != 0 && intervals.of_this_launch(read_));
    }
    [[nodiscard]] Touch several_blocks(Touch now, bool between_blocks, const Intervals& intervals) const {
        if (!between_blocks || !intervals.of_this_launch(read_))
            return 0;
        return intervals.block(read_) != intervals.block(now) ? touch_flag : read_ & touch_flag;
    }

    Touch write_ = 0;
    Touch read_ = 0;
};

/// The shadows of a range of memory, as fine as the finest access so far.
class Shadows {
  public:
    /// Makes shadows for `size` bytes, as fine as an access to `bytes` of them needs.
    void cover(std::uint64_t size, std::uint32_t bytes) {
        if (bytes >> shift_ == 0 || all_.size() << shift_ < size)
            make(size, bytes);
    }
    /// Calls note(shadow) for each of some bytes that cover() has covered. Returns the first for
    /// which it is false.
    template <class Note>
    Shadow* each(std::uint64_t at, std::uint32_t bytes, const Note& note) {
        const std::uint64_t last = (at + bytes - 1) >> shift_;
        for (std::uint64_t k = at >> shift_; k <= last; ++k)
            if (!note(all_[k]))
                return &all_[k];
        return nullptr;
    }

  private:
    void make(std::uint64_t size, std::uint32_t bytes);

    std::vector<Shadow> all_;
    std::uint32_t shift_ = 3; ///< 2^shift_ bytes have one
};

/// Which bytes have been written since their allocation: a bit each.
class WrittenBytes {
  public:
    WrittenBytes() = default;
    explicit WrittenBytes(std::uint64_t bytes) : words_((bytes + 63) / 64, 0) {}
    /// Whether writes are tracked; not for memory that counts as written from the start.
    [[nodiscard]] bool kept() const { return !words_.empty(); }
    void write(std::uint64_t at, std::uint64_t bytes);
    [[nodiscard]] bool all(std::uint64_t at, std::uint64_t bytes) const;
    /// Marks all bytes as unwritten.
    void forget(std::uint64_t bytes) { words_.assign((bytes + 63) / 64, 0); }
    /// The two above for the few bytes of one access.
    void write_few(std::uint64_t at, std::uint32_t bytes) {
        if (within_a_word(at, bytes))
            words_[at / 64] |= few(bytes) << (at % 64);
        else
            write(at, bytes);
    }
    [[nodiscard]] bool all_few(std::uint64_t at, std::uint32_t bytes) const {
        return within_a_word(at, bytes) ? (words_[at / 64] >> (at % 64) & few(bytes)) == few(bytes)
                                        : all(at, bytes);
    }

  private:
    static bool within_a_word(std::uint64_t at, std::uint32_t bytes) { return at % 64 + bytes <= 64; }
    static std::uint64_t few(std::uint32_t bytes) { return (std::uint64_t{1} << bytes) - 1; }

    std::vector<std::uint64_t> words_;
};

/// Bytes that an exchange between devices is sending or receiving.
struct Flight {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool written = false;
    const void* of = nullptr; ///< the exchange
    std::string who;          ///< "rank 0's all-gather 3 of communicator 1 (4 ranks)"

    [[nodiscard]] std::string text() const {
        return " memory in flight, which " + who + (written ? " receives" : " sends");
    }
};

struct Allocation {
    static constexpr int any_device = -1;
    std::uint64_t base = 0;
    std::uint64_t size = 0;
    std::int64_t to_host = 0; ///< from an address to the place where the machine has the bytes
    int device = any_device;  ///< whose kernels alone may touch it
    std::vector<Flight> in_flight;
    Shadows shadows;
    WrittenBytes written;

    [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t bytes) const {
        return at >= base && bytes <= size && at - base <= size - bytes;
    }
    /// An exchange that forbids reading, or writing, some of these bytes now; or nullptr.
    [[nodiscard]] const Flight* met(std::uint64_t at, std::uint64_t bytes, bool write) const;
    [[nodiscard]] std::uint8_t* bytes(std::uint64_t at) const {
        return reinterpret_cast<std::uint8_t*>(at + static_cast<std::uint64_t>(to_host));
    }
};

/// Memory that kernels may touch.
class Memory {
  public:
    /// `filled`: all of it counts as written.
    void add(std::uint64_t base, std::uint64_t size, std::int64_t to_host, bool filled,
             int device = Allocation::any_device);
    void remove(std::uint64_t base);
    /// The allocation that the address lies in, or nullptr.
    [[nodiscard]] Allocation* find(std::uint64_t address);

  private:
    std::map<std::uint64_t, Allocation> all_;
    Allocation* last_ = nullptr;
};

} // namespace truestep::simulator
