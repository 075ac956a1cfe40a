#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace scape::simulator {

enum class Act : std::uint8_t { read, write, atomic };

/// Who touched a byte last. Those of other launches are no matter: a launch is over before the next begins.
struct Touch {
    std::uint32_t launch = 0;
    std::uint32_t block = 0;
    std::uint32_t interval = 0; ///< between two barriers of the block
    std::int32_t thread = many; ///< of the block
    static constexpr std::int32_t many = -1;
};

/// What is known of some bytes: who wrote them, who read them.
class Shadow {
  public:
    /// Notes the act. Returns whom it races with, or nullptr: two touch the same place in one launch, at
    /// least one of them writes, they are not both atomic, and no barrier of a block that both are in lies
    /// between.
    const Touch* touch(const Touch& now, Act act, bool between_blocks);
    /// What it raced with.
    [[nodiscard]] const char* what() const { return with_; }

  private:
    [[nodiscard]] const Touch* read(const Touch& now, bool between_blocks);
    [[nodiscard]] const Touch* write(const Touch& now, Act act, bool between_blocks);

    Touch write_;
    Touch read_;
    bool atomic_ = false;         ///< the last write
    bool read_by_blocks_ = false; ///< more than one of this launch
    const char* with_ = "";
};

/// The shadows of a range of memory, as fine as the finest access that there has been.
class Shadows {
  public:
    struct Race {
        const char* what = "";
        Touch other;
    };
    /// Notes an act on bytes that begin at `at`, of the memory that they are of. Returns whether it raced.
    bool touch(std::uint64_t at, std::uint32_t bytes, const Touch& now, Act act, bool between_blocks,
               Race& race);
    void cover(std::uint64_t bytes);

  private:
    void refine(std::uint32_t shift);

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

  private:
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

} // namespace scape::simulator
