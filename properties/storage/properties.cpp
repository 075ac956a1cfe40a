// Judges files, and what a failing disk or machine leaves of them (section 44).
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include <truestep/storage/checkpoint.hpp>

#include <memory_files.hpp>
#include <wrapped_files.hpp>

#include "trial.hpp"

namespace truestep::properties::storage {

namespace {

namespace memory = truestep::storage::memory;
using truestep::storage::OutputFile;
using truestep::storage::SafetensorsFile;
using truestep::storage::TensorEntry;

const Path in_memory = "/run/step/file";

/// The values of a tensor by the function for its type, as bytes.
std::string typed(const SafetensorsFile& file, const TensorEntry& entry) {
    const auto bytes = [](const auto& values) {
        const auto all = std::as_bytes(std::span(values));
        return std::string(reinterpret_cast<const char*>(all.data()), all.size());
    };
    switch (entry.type) {
    case DataType::f32:
        return bytes(file.read_f32(entry.name));
    case DataType::f64:
        return bytes(file.read_f64(entry.name));
    case DataType::u8:
        return bytes(file.read_u8(entry.name));
    case DataType::u64:
        return bytes(file.read_u64(entry.name));
    default:
        std::string raw(entry.end - entry.begin, '\0');
        file.read_raw(entry, 0, std::as_writable_bytes(std::span(raw)));
        return raw;
    }
}

/// `ascii`: the header has other letters as numbers.
void reads(Trial& trial, const FileSystem& files, const Path& path, const Content& content, bool ascii) {
    const std::string bytes = bytes_in(path);
    const SafetensorsFile file(path, files);
    trial.holds(file.metadata() == content.words, "the words are others");
    trial.holds(file.tensors().size() == content.tensors.size(), "there are other tensors");
    trial.holds(std::ranges::is_sorted(file.tensors(), {}, &TensorEntry::begin),
                "the tensors are not in the order of their data");
    trial.holds(file.find("none of these") == nullptr, "a tensor is found that is not there");
    for (std::size_t number = 0; number < content.tensors.size(); ++number) {
        const Tensor& tensor = content.tensors[number];
        const std::string what = "tensor " + std::to_string(number);
        const TensorEntry* const entry = file.find(tensor.name);
        trial.holds(entry != nullptr && entry->type == tensor.type && entry->shape == tensor.shape,
                    what + " is not found as it was");
        if (entry == nullptr)
            continue;
        const std::string name = nlohmann::json(tensor.name).dump(-1, ' ', ascii);
        trial.holds(bytes.compare(entry->header_offset, name.size(), name) == 0,
                    what + " is not where messages say");
        if (entry->type != DataType::f32)
            trial.refused(path, "has dtype", "a read as f32",
                          [&] { static_cast<void>(file.read_f32(tensor.name)); });
        trial.holds(typed(file, *entry) == tensor.bytes, what + " has other bytes");
        const std::size_t begin = trial.run.random(For::values, {number}) % (tensor.bytes.size() + 1);
        std::string rest(tensor.bytes.size() - begin, '\0');
        file.read_raw(*entry, begin, std::as_writable_bytes(std::span(rest)));
        trial.holds(rest == tensor.bytes.substr(begin),
                    what + " has other bytes from " + std::to_string(begin) + " on");
        trial.refused(path, "beyond", "a read of a byte too many", [&] {
            rest.push_back(0);
            file.read_raw(*entry, begin, std::as_writable_bytes(std::span(rest)));
        });
    }
}

void reads_what_was_written(Trial& trial) {
    const Content content = content_of(trial.run);
    const Path folder = trial.implementation.folder();
    const auto files = trial.implementation.over(truestep::storage::disk(), trial.run);
    save(*files, folder / "ours", content);
    const nlohmann::ordered_json header = header_of(content);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    trial.holds(bytes_in(folder / "ours") == file_around(text, content),
                "the file has other bytes than its closed form");
    reads(trial, *files, folder / "ours", content, false);

    // Other writers order, space and escape in other ways.
    nlohmann::ordered_json turned = nlohmann::ordered_json::object();
    for (auto member = header.rbegin(); member != header.rend(); ++member)
        turned[member.key()] = member.value();
    const bool ascii = trial.run.seed % 2 == 0;
    put(folder / "theirs", file_around(turned.dump(trial.run.seed % 3 == 0 ? 2 : -1, ' ', ascii), content));
    reads(trial, *files, folder / "theirs", content, ascii);
    std::filesystem::remove_all(folder);
}

/// Cases in memory keep every state of a file, so its writes are few.
Case of_few_writes(Case run) {
    constexpr Index most = 1500;
    constexpr Index fewest = 200;
    run.bytes = std::min(run.bytes, most);
    if (run.piece > 0)
        run.piece = std::max(run.piece, fewest);
    return run;
}

memory::Tree before_of(const std::string& old) {
    return {{"/run", std::nullopt}, {"/run/step", std::nullopt}, {in_memory.string(), old}};
}

/// Saves with a fault in that call of those that change something; a write does half of its work before.
/// Returns the number of such calls.
std::int64_t save_with_fault(const Implementation& implementation, const Case& run, memory::Files& files,
                             std::int64_t fails) {
    const auto rank = files.rank(0);
    std::int64_t calls = 0;
    truestep::storage::WatchedFiles failing(*rank, [&](OutputFile* file, std::span<const std::byte> bytes) {
        if (++calls != fails)
            return std::error_code();
        std::error_code error;
        if (file != nullptr)
            static_cast<void>(file->write(bytes.first(bytes.size() / 2), error));
        return std::make_error_code(std::errc::no_space_on_device);
    });
    save(*implementation.over(failing, run), in_memory, content_of(run, 1));
    return calls;
}

void tells_failures(Trial& trial) {
    const Content old = content_of(trial.run);
    const std::string bytes = file_around(header_of(old).dump(), old);
    const auto unchanged = [&](const memory::Files& files, const std::string& after) {
        const std::string* const now = files.state().contents(in_memory);
        trial.holds(now != nullptr && *now == bytes, "the old file has changed after " + after);
        trial.holds(files.state().list("/run/step")->size() == 1,
                    "something stays beside the old file after " + after);
    };
    memory::Files good{memory::State(before_of(bytes))};
    const std::int64_t calls = save_with_fault(trial.implementation, trial.run, good, 0);
    for (std::int64_t call = 1; call <= calls; ++call) {
        memory::Files files{memory::State(before_of(bytes))};
        const std::string after =
            "call " + std::to_string(call) + " of " + std::to_string(calls) + " has failed";
        trial.refused("/run/step/file", "No space left", "a save of which " + after,
                      [&] { save_with_fault(trial.implementation, trial.run, files, call); });
        unchanged(files, after);
    }
    const Tensor twice{"twice", DataType::u8, {1}, "."};
    const std::map<std::string, std::function<void(Content&)>> impossible{
        {"words that are not UTF-8", [](Content& content) { content.words["key"] = "\xff"; }},
        {"a name that is not UTF-8",
         [](Content& content) {
             content.tensors.push_back({"\xff", DataType::u8, {1}, "."});
         }},
        {"two tensors of one name",
         [&](Content& content) { content.tensors.insert(content.tensors.end(), 2, twice); }}};
    for (const auto& [what, change] : impossible) {
        memory::Files files{memory::State(before_of(bytes))};
        Content content = content_of(trial.run, 1);
        change(content);
        const auto rank = files.rank(0);
        trial.refused("/run/step/file", "", what,
                      [&] { save(*trial.implementation.over(*rank, trial.run), in_memory, content); });
        unchanged(files, what);
    }
}

struct State {
    std::int64_t steps = 0;
    std::vector<float> w{};
    bool operator==(const State&) const = default;
};

std::string joined(const std::vector<std::string>& settings) {
    std::string all;
    for (const std::string& one : settings)
        all += (all.empty() ? "" : ", ") + one;
    return all;
}

/// A checkpoint is saved in folders that are missing, or that an ended process has made.
void lasts(Trial& trial) {
    const truestep::storage::StateFormat<State> format{
        "a state of the gate", 1, {{"steps", &State::steps}}, {{"w", &State::w}}};
    const auto state_of = [&](std::int64_t steps) {
        State state{steps, std::vector<float>(static_cast<std::size_t>(trial.run.bytes) / sizeof(float))};
        for (std::size_t i = 0; i < state.w.size(); ++i)
            state.w[i] = static_cast<float>(
                trial.run.random(For::values, {i, static_cast<std::uint64_t>(steps)}) % 1000);
        return state;
    };
    const std::uint64_t begin = trial.run.random(For::folders) % 4; // nothing, a folder, both, an old file
    memory::Files files{memory::State(memory::Tree{})};
    const auto rank = files.rank(0);
    const auto judged = trial.implementation.over(*rank, trial.run);
    if (begin == 3)
        save_state(*rank, in_memory, format, {}, state_of(1));
    if (begin == 1 || begin == 2)
        static_cast<void>(rank->make_folder("/run"));
    if (begin == 2) { // by a process that makes no folder in one that may be lost
        static_cast<void>(rank->sync_folder("/"));
        static_cast<void>(rank->make_folder("/run/step"));
    }
    const std::size_t made = files.operations().size(); // before the save
    const std::string* const there = files.state().contents(in_memory);
    const std::optional<std::string> old = there == nullptr ? std::nullopt : std::optional(*there);
    // One setting differs: its value goes on, or it is the last and missing.
    std::vector<std::string> settings;
    for (std::uint64_t which = 0; which <= trial.run.random(For::words) % 4; ++which)
        settings.push_back("s" + std::to_string(which) + " " +
                           std::to_string(trial.run.random(For::words, {which}) % 3));
    std::vector<std::string> others = settings;
    const std::size_t other = trial.run.random(For::damage) % (settings.size() + 1);
    if (other < settings.size())
        others[other] += '5';
    else
        others.push_back("s9 1");
    if (trial.run.seed % 2 == 0) // the run that was saved has more
        std::swap(settings, others);
    save_state(*judged, in_memory, format, {{"settings", joined(settings)}}, state_of(2));
    const auto one_of = [other](const std::vector<std::string>& all) {
        return other < all.size() ? all[other] : "nothing more";
    };
    const auto load = [&](const std::vector<std::string>& here) {
        return truestep::storage::load_state(*judged, in_memory, format, {{"settings", joined(here)}});
    };
    trial.holds(load(settings) == state_of(2), "the state that is loaded is another");
    trial.refused(in_memory,
                  "other settings: " + one_of(settings) + " where this run has " + one_of(others) + ";",
                  "a run of other settings", [&] { static_cast<void>(load(others)); });
    const std::string saved = *files.state().contents(in_memory);
    memory::State state = files.begin();
    for (std::size_t number = 0; number < files.operations().size(); ++number) {
        const memory::Operation& operation = files.operations()[number];
        static_cast<void>(state.apply(operation));
        if (number + 1 < made)
            continue;
        const bool ended = number + 1 == files.operations().size();
        for (const memory::Tree& tree : state.outcomes(static_cast<std::uint64_t>(trial.run.seed))) {
            const auto found = tree.find(in_memory.string());
            const bool is_new = found != tree.end() && found->second == saved;
            const bool is_old = found == tree.end() ? !old : found->second == old;
            trial.expect(is_new || (is_old && !ended), 0, [&] {
                return "a crash of the machine after '" + memory::text(operation) + "' leaves " +
                       (found == tree.end() ? "no file" : "a file that is neither the old nor the new one");
            });
        }
    }
}

} // namespace

std::vector<gate::Property> properties() {
    const gate::Demands<Case> usual{"several tensors", "in pieces"};
    return {
        spec().property(
            1, "damage",
            "A file that is cut, too long, or contradicts itself is refused, in one line about its place.",
            gate::judged_by(is_refused_after_damage), {"in pieces"}),
        spec().property(2, "failures",
                        "A save that fails or is refused says so, and leaves what was there.",
                        gate::judged_by(tells_failures), {"several tensors"}, of_few_writes),
        spec().property(3, "lasts",
                        "Wherever the machine crashes, a saved file is the old or the new one, whole, and "
                        "the new one at the end.",
                        gate::judged_by(lasts), {}, of_few_writes),
        spec().property(4, "links",
                        "Links stay what they are, and what is removed or written lies behind none.",
                        gate::judged_by(keeps_links), {"through links"}),
        spec().property(5, "folders",
                        "The latest complete checkpoint is found among all else, in any order of names.",
                        gate::judged_by(finds_checkpoints), {}),
        spec().property(0, "reference",
                        "A file is its closed form, and what is read is what was written, by any writer.",
                        gate::judged_by(reads_what_was_written), usual)};
}

} // namespace truestep::properties::storage
