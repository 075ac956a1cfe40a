// Reads the file of collectives that one rank wrote while it trained.
#include <truestep/verify/collectives/recording.hpp>

#include <algorithm>
#include <fstream>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/config.hpp>

namespace truestep::verify::collectives {

namespace {

using trace::ObjectReader;

constexpr const char* format_of_recordings = "truestep-collectives";
constexpr std::size_t print_digits = 16;
constexpr Index most_ranks = 1'000'000;

/// Reads one file, record by record. Where it ends in the midst of one, that one is left out.
class RecordingReader {
  public:
    explicit RecordingReader(const std::filesystem::path& path) : file_(path, std::ios::binary) {
        recording_.path = path;
        if (!file_)
            throw Error(path.string() + ": cannot be read; check that it is there and yours to read");
        std::error_code unknown;
        size_ = std::filesystem::file_size(path, unknown);
    }

    Recording read() {
        std::string line;
        for (number_ = 1; std::getline(file_, line); ++number_) {
            if (file_.eof()) {
                recording_.torn = true;
                break;
            }
            where_ = recording_.path.string() + ", record " + std::to_string(number_);
            const nlohmann::json json = trace::parse_json(line, where_);
            ObjectReader object(json, where_);
            if (number_ == 1) {
                read_head(object);
                continue;
            }
            offset_ = static_cast<std::uint64_t>(file_.tellg());
            bytes_ = json.contains("bytes") ? static_cast<std::uint64_t>(object.count("bytes")) : 0;
            if (bytes_ > 0 && (offset_ + bytes_ + 1 > size_)) {
                recording_.torn = true;
                break;
            }
            read_record(json, object);
            object.finish();
            if (bytes_ > 0) {
                file_.seekg(static_cast<std::streamoff>(offset_ + bytes_));
                if (file_.get() != '\n')
                    throw Error(where_ + ": its values do not end where they should; the file is damaged, "
                                         "take it from its machine again");
            }
        }
        if (number_ == 1)
            throw Error(recording_.path.string() +
                        ": it ends before its first record does; there is nothing in it");
        return std::move(recording_);
    }

  private:
    void read_head(ObjectReader& head) {
        if (const std::string format = head.text("format"); format != format_of_recordings)
            throw Error(where_ + ": its format is '" + one_line(format) +
                        "'; give what truestep.torch.watch wrote, " + format_of_recordings);
        if (const std::string version = head.text("version"); version != "1")
            throw Error(where_ + ": its version is '" + one_line(version) +
                        "', and this tool reads version 1; use the truestep that wrote it");
        recording_.run = head.text("run");
        recording_.started = head.count("started");
        head.read("world", recording_.world, {1, most_ranks});
        head.read("rank", recording_.rank, {0, recording_.world - 1});
        recording_.torch = one_line(head.text("torch"));
        recording_.hooks = head.truth("hooks");
        recording_.every = head.within("every", {1, Index{1} << 40});
        recording_.block = head.within("block", {1, Index{1} << 40});
        head.finish();
    }

    void read_record(const nlohmann::json& json, ObjectReader& object) {
        if (json.contains("group") && !json.contains("call")) {
            Group group{integers(object.list("ranks")), object.count("ordinal")};
            recording_.groups.emplace(static_cast<int>(object.count("group")), std::move(group));
        } else if (json.contains("call")) {
            read_call(json, object);
        } else if (json.contains("done")) {
            Call& call = called(object.count("done"));
            if (json.contains("from"))
                call.root = static_cast<int>(object.integer("from"));
            call.taken = operands(object.list("out"), call);
            if (json.contains("written")) {
                call.overwritten = object.truth("overwritten");
                call.written = object.truth("written");
            }
        } else if (json.contains("failed")) {
            Call& call = called(object.count("failed"));
            call.failed = one_line(object.text("why"));
        } else if (json.contains("step")) {
            read_step(object);
        } else if (json.contains("hang")) {
            read_hang(json, object);
            return;
        } else if (json.contains("end")) {
            recording_.ended = true;
            if (object.count("end") != static_cast<Index>(recording_.calls.size()))
                throw Error(where_ + ": it counts other calls than there are; the file is damaged");
        } else {
            throw Error(where_ + ": this tool does not know such a record; use the truestep that wrote it");
        }
        recording_.hang.reset(); // it was only slow
    }

    void read_hang(const nlohmann::json& json, ObjectReader& object) {
        Hang hang;
        object.count("hang");
        hang.silent = seconds_of(object.required("silent"));
        for (const nlohmann::json& entry : object.list("waits")) {
            if (!entry.is_array() || entry.size() != 2)
                throw Error(where_ + ": a wait is not a list of a call and seconds");
            hang.waits.push_back({called(size_of(entry[0])).number, seconds_of(entry[1])});
        }
        hang.stack = texts(object.list("stack"));
        if (json.contains("flight")) {
            const std::vector<std::string> flight = texts(object.list("flight"));
            if (flight.size() != 2)
                throw Error(where_ + ": flight is not a list of a file and its newest entry");
            hang.flight = flight[1] + " (" + flight[0] + ")";
        }
        recording_.hang = std::move(hang);
    }

    void read_call(const nlohmann::json& json, ObjectReader& object) {
        Call call;
        call.number = object.count("call");
        if (call.number != static_cast<Index>(recording_.calls.size()))
            throw Error(where_ + ": call " + std::to_string(call.number) + " where call " +
                        std::to_string(recording_.calls.size()) + " would follow; the file is damaged");
        call.group = static_cast<int>(object.count("group"));
        if (!recording_.groups.contains(call.group))
            throw Error(where_ + ": no record says which ranks group " + std::to_string(call.group) +
                        " has");
        call.place = object.count("number");
        call.name = one_line(object.text("name"));
        call.root = static_cast<int>(object.integer_or("root", -1));
        call.op = one_line(object.text_or("op", ""));
        if (json.contains("tag"))
            call.tag = object.integer("tag");
        if (json.contains("async"))
            call.asynchronous = object.truth("async");
        const nlohmann::json& both = object.list("shapes");
        if (both.size() != 2)
            throw Error(where_ + ": shapes is not a list of two lists, inputs and outputs");
        call.inputs = shapes(both[0]);
        call.outputs = shapes(both[1]);
        call.stack = texts(object.list("stack"));
        call.unseen = one_line(object.text_or("unseen", ""));
        if (json.contains("in"))
            call.given = operands(object.list("in"), call);
        recording_.calls.push_back(std::move(call));
    }

    void read_step(ObjectReader& object) {
        Step step{object.count("step"), object.count("after"), {}, texts(object.list("stack"))};
        for (const nlohmann::json& entry : object.list("parameters")) {
            if (!entry.is_array() || entry.size() != 5)
                throw Error(where_ + ": a parameter is not a list of five");
            const std::vector<std::string> words =
                texts(nlohmann::json::array({entry[0], entry[2], entry[3], entry[4]}));
            step.parameters.push_back({words[0], {}, words[1], words[2], words[3]});
            for (const int size : integers(entry[1]))
                step.parameters.back().sizes.push_back(size);
        }
        recording_.steps.push_back(std::move(step));
    }

    Call& called(Index number) {
        if (number >= static_cast<Index>(recording_.calls.size()))
            throw Error(where_ + ": it is about call " + std::to_string(number) +
                        ", which no record begins");
        return recording_.calls[static_cast<std::size_t>(number)];
    }

    Operands operands(const nlohmann::json& list, const Call& call) {
        Operands all{{}, offset_, bytes_};
        for (const nlohmann::json& entry : list) {
            const bool pair = entry.is_array() && entry.size() == 2 && entry[0].is_number_unsigned() &&
                              entry[1].is_string();
            const auto print =
                pair ? parse_number<std::uint64_t>(entry[1].get<std::string>(), 16) : std::nullopt;
            if (!print || entry[1].get_ref<const std::string&>().size() != print_digits)
                throw Error(where_ + ": a part of " + call.name +
                            " is not a count and a fingerprint of 16 digits");
            all.parts.push_back({entry[0].get<Index>(), *print});
        }
        return all;
    }

    std::vector<Shape> shapes(const nlohmann::json& list) {
        std::vector<Shape> all;
        for (const nlohmann::json& entry : list) {
            if (!entry.is_array() || entry.empty() || !entry[0].is_string())
                throw Error(where_ + ": a shape is not a list of a type and sizes");
            all.push_back({one_line(entry[0].get<std::string>()), {}});
            for (std::size_t i = 1; i < entry.size(); ++i)
                all.back().sizes.push_back(size_of(entry[i]));
        }
        return all;
    }

    Index size_of(const nlohmann::json& entry) {
        if (!entry.is_number_unsigned() || entry.get<std::uint64_t>() > (std::uint64_t{1} << 48U))
            throw Error(where_ + ": a size is not a whole number of at least 0");
        return entry.get<Index>();
    }

    double seconds_of(const nlohmann::json& entry) {
        if (!entry.is_number() || !(entry.get<double>() >= 0.0))
            throw Error(where_ + ": seconds are not a number of at least 0");
        return entry.get<double>();
    }

    std::vector<int> integers(const nlohmann::json& list) {
        std::vector<int> all;
        for (const nlohmann::json& entry : list)
            all.push_back(static_cast<int>(size_of(entry)));
        return all;
    }

    std::vector<std::string> texts(const nlohmann::json& list) {
        std::vector<std::string> all;
        for (const nlohmann::json& entry : list) {
            if (!entry.is_string())
                throw Error(where_ + ": a list of texts has something else");
            all.push_back(one_line(entry.get<std::string>()));
        }
        return all;
    }

    std::ifstream file_;
    Recording recording_;
    std::string where_;
    std::uint64_t size_ = 0;
    std::uint64_t offset_ = 0;
    std::uint64_t bytes_ = 0;
    Index number_ = 1;
};

} // namespace

Recording read_recording(const std::filesystem::path& path) {
    return RecordingReader(path).read();
}

std::vector<std::byte> sampled_values(const Recording& recording, const Operands& operands) {
    std::vector<std::byte> bytes(operands.bytes);
    std::ifstream file(recording.path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(operands.offset));
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file)
        throw Error(recording.path.string() +
                    ": it has become shorter while it was read; stop the run first");
    return bytes;
}

std::vector<Index> sampled_indices(Index count, Index block, Index place) {
    constexpr Index least = 64; // of a small tensor as many are taken, or all
    block = std::max(Index{1}, std::min(block, count / least));
    std::vector<Index> all;
    const std::uint64_t seed = problem::mix64(static_cast<std::uint64_t>(place) + 1);
    for (Index begin = 0, number = 0; begin < count; begin += block, ++number) {
        const std::uint64_t drawn = problem::mix64(static_cast<std::uint64_t>(number) ^ seed);
        const Index index = begin + static_cast<Index>(drawn % static_cast<std::uint64_t>(block));
        if (index < count)
            all.push_back(index);
    }
    return all;
}

} // namespace truestep::verify::collectives
