// The parts of the gate of files: its case, the files that follow from it, and file systems that are wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <truestep/gate/case_spec.hpp>
#include <truestep/gate/group.hpp>
#include <truestep/gate/implementation.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/storage/safetensors.hpp>

namespace truestep::properties::storage {

using problem::Index;
using truestep::storage::DataType;
using truestep::storage::FileSystem;
using Path = FileSystem::Path;

/// A case draws random numbers for each of these.
enum class For : std::uint64_t { names, types, shapes, values, words, pieces, damage, links, folders };

/// A few small numbers from which files, folders and links follow.
struct Case {
    static const gate::ListedKind<Case> kinds[];

    Index tensors = 1;
    Index workers = 1; ///< ranks of the largest checkpoint
    Index bytes = 8;   ///< of the largest tensor; one value may be larger
    Index words = 0;   ///< in the metadata
    Index piece = 0;   ///< bytes that one read or write takes at most; 0: as many as it is given
    Index links = 0;   ///< on the way to the file
    Index seed = 0;

    /// A random number for that use at these places of the case.
    [[nodiscard]] std::uint64_t random(For use, std::initializer_list<std::uint64_t> places = {}) const;
};

inline constexpr gate::ListedKind<Case> Case::kinds[] = {
    {"several tensors", 50, [](const Case& run) { return run.tensors > 1; }},
    {"in pieces", 50, [](const Case& run) { return run.piece > 0; }},
    {"through links", 40, [](const Case& run) { return run.links > 0; }}};

/// The settings of a case, which a line has as
/// "tensors=3,workers=2,bytes=40,words=1,piece=7,links=2,seed=9".
[[nodiscard]] const gate::CaseSpec<Case>& spec();

struct Tensor {
    std::string name{};
    DataType type{};
    std::vector<std::uint64_t> shape{};
    std::string bytes{};
};

/// The words and tensors of a file.
struct Content {
    std::map<std::string, std::string> words;
    std::vector<Tensor> tensors;
};

/// The content of that version of the case's file.
[[nodiscard]] Content content_of(const Case& run, std::uint64_t version = 0);
/// The closed form of a file around that header, an object whose members have this order.
[[nodiscard]] std::string file_around(const std::string& header, const Content& content);
/// The header that the writer makes.
[[nodiscard]] nlohmann::ordered_json header_of(const Content& content);
/// Writes it by the writer that is judged.
void save(FileSystem& files, const Path& path, const Content& content);

/// The file systems that are judged: this machine's disks and one in memory, through the known bug.
class Implementation final : public gate::Implementation {
  public:
    Implementation(std::string name, int known_bug, std::shared_ptr<const gate::Group> group)
        : name_(std::move(name)), known_bug_(known_bug), group_(std::move(group)) {}

    [[nodiscard]] std::string name() const override { return name_; }
    [[nodiscard]] std::string communicator() const override { return "-"; }
    [[nodiscard]] verify::LevelKind level() const override { return verify::LevelKind::exact; }
    [[nodiscard]] bool takes(int /*workers*/) const override { return true; }
    [[nodiscard]] bool any(bool here) const override { return group_->any(here); }

    /// Calls of it take and give pieces as the case says. It has the known bug, if there is one.
    [[nodiscard]] std::unique_ptr<FileSystem> over(FileSystem& inner, const Case& run) const;
    /// A new folder on the disk, for one case.
    [[nodiscard]] Path folder() const;

  private:
    std::string name_;
    int known_bug_;
    std::shared_ptr<const gate::Group> group_;
    mutable std::uint64_t folders_ = 0;
};

/// The properties, which must always hold (section 44).
[[nodiscard]] std::vector<gate::Property> properties();

[[nodiscard]] std::vector<problem::KnownBug> known_bugs();

} // namespace truestep::properties::storage
