#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <truestep/gate/group.hpp>

namespace truestep::gate {

/// What a rank has seen, on its way between processes of one build: numbers and lists, read in the order
/// in which they were written.
class Record {
  public:
    explicit Record(Group::Bytes bytes = {}) : bytes_(std::move(bytes)) {}
    [[nodiscard]] Group::Bytes& bytes() { return bytes_; }

    void put(std::uint64_t value) { add(&value, sizeof value); }
    /// Of a text or a vector of plain values.
    template <class List>
    void put_list(const List& list) {
        put(list.size());
        add(list.data(), list.size() * sizeof(*list.data()));
    }

    std::uint64_t number() {
        std::uint64_t value = 0;
        take(&value, sizeof value);
        return value;
    }
    template <class List>
    List list() {
        List result;
        const std::uint64_t count = number();
        if (count > bytes_.size())
            throw std::logic_error("a record is too short");
        result.resize(count);
        take(result.data(), result.size() * sizeof(*result.data()));
        return result;
    }

  private:
    void add(const void* from, std::size_t size) {
        const auto* begin = static_cast<const std::uint8_t*>(from);
        bytes_.insert(bytes_.end(), begin, begin + size);
    }
    void take(void* to, std::size_t size) {
        if (size > bytes_.size() - at_)
            throw std::logic_error("a record is too short");
        if (size > 0)
            std::memcpy(to, bytes_.data() + at_, size);
        at_ += size;
    }

    Group::Bytes bytes_;
    std::size_t at_ = 0;
};

} // namespace truestep::gate
