#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/storage/safetensors.hpp>
#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/results.hpp>
#include <truestep/verify/scape/run.hpp>
#include <truestep/verify/scape/verify_trace.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify::scape {
inline constexpr int all_ranks = Divergence::all_ranks;
}

/// Shared by the test suites of verify/.
namespace truestep::verify::scape::support {

using storage::DataType;
using storage::SafetensorsFile;
using storage::SafetensorsWriter;
using storage::TensorEntry;

[[nodiscard]] inline std::string gradient_name(Index step, int rank) {
    return tensor_name(gradient_kind, step, rank);
}

/// A separate folder, removed at the end.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

[[nodiscard]] std::string load(const std::filesystem::path& path);
void store(const std::filesystem::path& path, std::string_view bytes);
[[nodiscard]] bool contains(std::string_view text, std::string_view part);

/// The text of the truestep::Error that `action` must throw; it must be one line.
template <class Action>
[[nodiscard]] std::string error_of(Action action) {
    try {
        action();
    } catch (const Error& error) {
        std::string text = error.what();
        EXPECT_FALSE(text.empty());
        EXPECT_FALSE(contains(text, "\n")) << text;
        return text;
    }
    ADD_FAILURE() << "no truestep::Error was thrown";
    return {};
}

/// Three workers; 81 parameters, which end inside a byte, in tensors that the ranges of 27 cut;
/// five steps; with all possible results. The segments: wq [0, 27) of rank 0; wq [27, 30), norm
/// [30, 35) and mlp [35, 54) of rank 1; mlp [54, 81) of rank 2.
[[nodiscard]] RecordOptions small_run(problem::Algorithm algorithm = problem::Algorithm::scape,
                                      const problem::HyperParameters& settings = {}, int workers = 3,
                                      problem::PartitionRule rule = problem::PartitionRule::by_shard);

/// Like record(), but `before` may change the run before each step.
void record_with(const std::filesystem::path& path, const RecordOptions& options,
                 const std::function<void(Index step, Run<float>& run)>& before);

/// Where in the file the tensor's data begins.
[[nodiscard]] std::uint64_t data_offset(const std::filesystem::path& path, const std::string& tensor);

void read_bytes(const std::filesystem::path& path, std::uint64_t offset, void* bytes, std::size_t count);
void write_bytes(const std::filesystem::path& path, std::uint64_t offset, const void* bytes,
                 std::size_t count);

template <class Element>
[[nodiscard]] Element element(const std::filesystem::path& path, const std::string& tensor, Index index) {
    Element value{};
    read_bytes(path, data_offset(path, tensor) + static_cast<std::uint64_t>(index) * sizeof value, &value,
               sizeof value);
    return value;
}

/// Overwrites one element in the file.
template <class Element>
void set_element(const std::filesystem::path& path, const std::string& tensor, Index index, Element value) {
    write_bytes(path, data_offset(path, tensor) + static_cast<std::uint64_t>(index) * sizeof value, &value,
                sizeof value);
}

[[nodiscard]] bool mask_bit(const std::filesystem::path& path, const std::string& tensor, Index index);
void flip_mask_bit(const std::filesystem::path& path, const std::string& tensor, Index index);

/// A whole file in memory, to be changed and written again.
struct FileImage {
    struct Tensor {
        std::string name;
        std::vector<std::uint64_t> shape;
        std::variant<std::vector<float>, std::vector<double>, std::vector<std::uint8_t>,
                     std::vector<std::uint64_t>>
            data;
    };

    explicit FileImage(const std::filesystem::path& path);
    void save(const std::filesystem::path& path) const;

    [[nodiscard]] Tensor& at(const std::string& name);
    /// Drops the tensors whose names contain `part`; there must be one.
    void drop(const std::string& part);
    void drop_result(std::string_view result);
    /// Replaces `old_part` in the metadata's config; it must be there.
    void replace_in_config(const std::string& old_part, const std::string& new_part);
    void keep_steps(Index steps);

    std::map<std::string, std::string> metadata;
    std::vector<Tensor> tensors;
};

/// The mismatches of all rows, including the outcomes of the steps.
[[nodiscard]] Index mismatched(const TraceVerdict& verdict);
/// The row of a result, or "outcome".
[[nodiscard]] const Row& row(const TraceVerdict& verdict, const std::string& result);

struct ToolResult {
    int status = -1; ///< 128 and the signal's number if it did not exit
    std::string output;
    std::string errors;
};

/// Runs the tool `truestep` with standard output and error in files.
[[nodiscard]] ToolResult run_tool(const std::vector<std::string>& arguments,
                                  const std::map<std::string, std::string>& environment = {});
/// Runs it with standard output on a separate terminal; status -1 if none is available.
[[nodiscard]] ToolResult run_tool_on_terminal(const std::vector<std::string>& arguments,
                                              const std::map<std::string, std::string>& environment = {});

[[nodiscard]] std::vector<std::string> lines(const std::string& text);
/// The last line without the line feed; empty if there is no line.
[[nodiscard]] std::string last_line(const std::string& text);

} // namespace truestep::verify::scape::support
