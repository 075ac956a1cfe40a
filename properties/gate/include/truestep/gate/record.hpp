// Sends what ranks recorded between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <truestep/gate/group.hpp>

namespace truestep::gate {

/// A rank's recording on its way between processes of one build. A record visits values in the same
/// order whether it writes or reads them: plain values as they lie in memory, lists and maps element by
/// element, and any other struct by its `fields(visit)`, which calls `visit` with all members.
class Record {
  public:
    Record() = default;
    explicit Record(Group::Bytes bytes) : bytes_(std::move(bytes)), reads_(true) {}
    [[nodiscard]] Group::Bytes take_bytes() { return std::move(bytes_); }

    template <class... Values>
    void operator()(Values&... values) {
        (visit(values), ...);
    }

  private:
    template <class Value>
    void visit(Value& value) {
        static_assert(!std::is_pointer_v<Value>, "another process has no use for an address");
        if constexpr (std::is_trivially_copyable_v<Value>)
            copy(&value, sizeof value);
        else if constexpr (requires { value.fields(*this); })
            value.fields(*this);
        else if constexpr (requires { typename Value::mapped_type; })
            visit_map(value);
        else
            visit_list(value);
    }
    template <class List>
    void visit_list(List& list) {
        list.resize(count_of(list));
        if constexpr (std::is_trivially_copyable_v<typename List::value_type>)
            copy(list.data(), list.size() * sizeof(*list.data()));
        else
            for (auto& value : list)
                visit(value);
    }
    template <class Map>
    void visit_map(Map& map) {
        std::size_t left = count_of(map);
        for (auto at = map.begin(); left > 0; --left) {
            auto key = reads_ ? typename Map::key_type() : (at++)->first;
            visit(key);
            visit(map[key]);
        }
    }
    template <class Values>
    std::size_t count_of(const Values& values) {
        std::size_t count = values.size();
        visit(count);
        if (reads_ && count > bytes_.size())
            throw std::logic_error("a record is too short");
        return count;
    }
    void copy(void* value, std::size_t size) {
        if (!reads_) {
            const auto* begin = static_cast<const std::uint8_t*>(value);
            bytes_.insert(bytes_.end(), begin, begin + size);
            return;
        }
        if (size > bytes_.size() - at_)
            throw std::logic_error("a record is too short");
        if (size > 0)
            std::memcpy(value, bytes_.data() + at_, size);
        at_ += size;
    }

    Group::Bytes bytes_;
    bool reads_ = false;
    std::size_t at_ = 0;
};

template <class RunPlots>
[[nodiscard]] Group::Bytes packed(const RunPlots& seen) {
    Record record;
    record(const_cast<RunPlots&>(seen)); // a record that writes changes nothing
    return record.take_bytes();
}

template <class RunPlots>
[[nodiscard]] RunPlots unpacked(Group::Bytes bytes) {
    RunPlots seen;
    Record(std::move(bytes))(seen);
    return seen;
}

/// The recordings of all ranks that have just worked, on every process. `mine` is by rank; only the ranks
/// of this process have to be filled in.
template <class RunPlots>
[[nodiscard]] std::vector<RunPlots> exchange_records(const Group& group,
                                                     const std::vector<RunPlots>& mine) {
    std::vector<RunPlots> all;
    for (Group::Bytes& bytes : group.exchange(static_cast<int>(mine.size()), [&](int rank) {
             return packed(mine[static_cast<std::size_t>(rank)]);
         }))
        if (!bytes.empty()) // empty for a process that took no part
            all.push_back(unpacked<RunPlots>(std::move(bytes)));
    return all;
}

} // namespace truestep::gate
