#include "rank_record.hpp"

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

namespace truestep::properties {

namespace {

class Writer {
  public:
    template <class Value>
    void add(const Value& value) {
        static_assert(std::is_trivially_copyable_v<Value>);
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
        bytes_.insert(bytes_.end(), bytes, bytes + sizeof(Value));
    }
    template <class Values>
    void add_all(const Values& values) {
        add(values.size());
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
        bytes_.insert(bytes_.end(), bytes, bytes + values.size() * sizeof(values[0]));
    }
    void add_record(const RankRecord& record) {
        add(record.views.size());
        for (std::size_t i = 0; i < record.views.size(); ++i) {
            const View& view = record.views[i];
            add(view.step);
            add_all(view.parameters);
            add_all(view.moment);
            add_all(view.residual);
            add_all(view.mask);
            add(view.told.has_value());
            add(view.told.value_or(Told{}));
            const Outcome& outcome = record.outcomes[i];
            add(outcome.kind);
            add_all(outcome.text);
            add(outcome.rank);
            add(outcome.index);
            add(outcome.value);
            add_all(outcome.damaged);
            add(outcome.sent);
            add(outcome.exchanges);
        }
        add_all(record.coming);
        add_all(record.ended);
        add(record.fault_came);
    }
    [[nodiscard]] gate::Group::Bytes take() { return std::move(bytes_); }

  private:
    gate::Group::Bytes bytes_;
};

class Reader {
  public:
    explicit Reader(const gate::Group::Bytes& bytes) : bytes_(bytes) {}

    template <class Value>
    void get(Value& value) {
        std::memcpy(&value, bytes_.data() + at_, sizeof(Value));
        at_ += sizeof(Value);
    }
    template <class Values>
    void get_all(Values& values) {
        std::size_t count = 0;
        get(count);
        values.resize(count);
        if (count > 0)
            std::memcpy(values.data(), bytes_.data() + at_, count * sizeof(values[0]));
        at_ += count * sizeof(values[0]);
    }
    [[nodiscard]] RankRecord record() {
        RankRecord result;
        std::size_t count = 0;
        get(count);
        result.views.resize(count);
        result.outcomes.resize(count);
        for (std::size_t i = 0; i < count; ++i) {
            View& view = result.views[i];
            get(view.step);
            get_all(view.parameters);
            get_all(view.moment);
            get_all(view.residual);
            get_all(view.mask);
            bool told = false;
            Told what;
            get(told);
            get(what);
            if (told)
                view.told = what;
            Outcome& outcome = result.outcomes[i];
            get(outcome.kind);
            get_all(outcome.text);
            get(outcome.rank);
            get(outcome.index);
            get(outcome.value);
            get_all(outcome.damaged);
            get(outcome.sent);
            get(outcome.exchanges);
        }
        get_all(result.coming);
        get_all(result.ended);
        get(result.fault_came);
        return result;
    }

  private:
    const gate::Group::Bytes& bytes_;
    std::size_t at_ = 0;
};

} // namespace

gate::Group::Bytes packed(const RankRecord& record) {
    Writer writer;
    writer.add_record(record);
    return writer.take();
}

RankRecord unpacked(const gate::Group::Bytes& bytes) {
    return Reader(bytes).record();
}

} // namespace truestep::properties
