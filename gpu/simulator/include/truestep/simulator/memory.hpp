#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace truestep::simulator {

enum class Act : std::uint8_t { read, write, atomic };

/// Who touched a byte last: a stretch of a block between two barriers, by the number that Intervals give
/// it, a thread of the block, and a flag; all in one number, since each access looks at some. None is 0.
using Touch = std::uint64_t;
constexpr unsigned touch_interval = 12; ///< the number's lowest bit
constexpr Touch touch_flag = Touch{1}
                             << 11U; ///< of a write: it was atomic. Of a read: several blocks' have
constexpr Touch touch_thread = touch_flag - 1; ///< the bits of the thread; all of them: several have

/// Numbers for what lies between two barriers of a block: of any launch, later ones are greater. Touches of
/// other launches are no matter: a launch is over before the next begins, so nothing has to be cleared.
class Intervals {
  public:
    void begin_launch() {
        first_ += blocks_.size();
        blocks_.clear();
    }
    /// The next one, as a touch by thread 0.
    [[nodiscard]] Touch begin(std::uint32_t block) {
        blocks_.push_back(block);
        return (first_ + blocks_.size() - 1) << touch_interval;
    }
    [[nodiscard]] bool of_this_launch(Touch touch) const { return touch >> touch_interval >= first_; }
    /// Whose it is, of this launch.
    [[nodiscard]] std::uint32_t block(Touch touch) const {
        return blocks_[(touch >> touch_interval) - first_];
    }

  private:
    std::uint64_t first_ = 1;
    std::vector<std::uint32_t> blocks_; ///< of this launch's
};

/// What is known of some bytes: who wrote them, who read them. Two race that touch them in one launch, at
/// least one of them writing, not both by atomic operations, and no barrier of a block that both are in
/// between; in memory that other blocks have, too, between blocks as well.
class Shadow {
  public:
    /// Notes it; or notes nothing and says false: it races.
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
    /// What an act has raced with.
    [[nodiscard]] Race race(Touch now, Act act, bool between_blocks, const Intervals& intervals) const {
        if (act != Act::read && !writes_race(now, act, between_blocks, intervals))
            return {"a read", read_};
        return {(write_ & touch_flag) != 0 ? "an atomic operation" : "a write", write_};
    }

  private:
    /// Whether nothing orders the two, of which one writes.
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

/// The shadows of a range of memory, as fine as the finest access that there has been.
class Shadows {
  public:
    /// Makes room for those of so many bytes, as fine as an access to `bytes` of them needs.
    void cover(std::uint64_t size, std::uint32_t bytes) {
        if (bytes >> shift_ == 0 || all_.size() << shift_ < size)
            make(size, bytes);
    }
    /// Calls note(shadow) with each of some bytes that cover() was told of. Returns the one that it says
    /// false of.
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

/// Which bytes have been written since there were any: a bit each.
class Written {
  public:
    Written() = default;
    explicit Written(std::uint64_t bytes) : words_((bytes + 63) / 64, 0) {}
    /// None is kept for what counts as written from the start.
    [[nodiscard]] bool kept() const { return !words_.empty(); }
    void write(std::uint64_t at, std::uint64_t bytes);
    [[nodiscard]] bool all(std::uint64_t at, std::uint64_t bytes) const;
    /// None is written any more.
    void forget(std::uint64_t bytes) { words_.assign((bytes + 63) / 64, 0); }
    /// The same as the two above, for no more bytes than an access has.
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

/// Bytes that an exchange between devices sends or receives, from its beginning to its end.
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
    Written written;

    [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t bytes) const {
        return at >= base && bytes <= size && at - base <= size - bytes;
    }
    /// What is under way with some of these bytes, where nobody may read, or write, them; or nullptr.
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
